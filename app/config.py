"""Settings: typed, read from a TOML file in the platform's config folder, overridden by `OUTRIDER_*` variables.

The command line overrides both. Every value passes the same checks in `Settings.replaced`, wherever it came from.
`OUTRIDER_HOME` moves config, data and logs under one folder.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, get_args
from urllib.parse import urlsplit

import msgspec

from app.files import NotText, read_text
from remote.credentials import bearer_token

PREFIX = "OUTRIDER_"
"""Prefix of each environment variable."""
REPOSITORY = Path(__file__).resolve().parent.parent
BUNDLED_DRAFTER = REPOSITORY / "drafter" / "pretrained" / "shell-guide"
BUNDLED_TARGET = REPOSITORY / "remote" / "verifier" / "pretrained" / "shell-guide"

ChosenMode = Literal["auto", "edge", "hosted", "offline"]
TreeRule = Literal["deterministic", "sampled"]
DrafterRuntime = Literal["onnx", "torch"]
PaceRule = Literal["measured", "fixed"]
Unanswered = Literal["queue", "fail", "drafter", "local"]
Titles = Literal["free", "always", "off"]
LogLevel = Literal["debug", "info", "warning", "error"]
CHOICES = {
    "mode": ChosenMode,
    "offline": Unanswered,
    "pace": PaceRule,
    "tree": TreeRule,
    "drafter_runtime": DrafterRuntime,
    "titles": Titles,
    "log": LogLevel,
}
Count = Annotated[int, msgspec.Meta(ge=1)]
Probability = Annotated[float, msgspec.Meta(gt=0, le=1)]
Url = Annotated[str, msgspec.Meta(pattern="^https?://[^/]")]
ShellKey = Annotated[str, msgspec.Meta(pattern="^(alt|ctrl)-[a-z]( (alt|ctrl)-[a-z])?$")]
UrlOrName = Annotated[str, msgspec.Meta(pattern="^(https?://[^/]|[A-Za-z0-9][A-Za-z0-9._-]*$)")]
PROMPT_NAME = r"^[^\W_][\w.-]{0,62}\Z"
"""Letters of any language, digits, dots, dashes and underscores, beginning with a letter or a digit."""
PromptName = Annotated[str, msgspec.Meta(pattern=PROMPT_NAME)]


class ConfigError(Exception):
    """An invalid setting; the message names the setting, its source and the accepted values."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings. Each field is a key of the file; in capitals after `OUTRIDER_` it is an environment variable."""

    mode: ChosenMode = "auto"
    """Who drafts. edge: this device. hosted: the server, which checks in both modes. auto: whichever is faster; while
    the server is away, the drafter may write alone. offline: no question leaves this device; the bundled model, or
    the drafter for another model, answers."""
    offline: Unanswered | None = None
    """What happens to a question while the server is away and no drafter may write in its place. queue: it waits until
    the server is back. fail: fail with a message. drafter: the drafter answers anyway. local: the model `local` on
    this device answers, and continues answers that break off. None: the model that `outrider local use` chose answers,
    or else the chat queues it and `outrider ask` fails."""
    local: str | None = None
    """Name of a model that `outrider local` lists, for `offline = "local"`. None: the one that
    `outrider local use` chose, or the only one listed."""
    remote: UrlOrName | None = None
    """Address of a verifier or an OpenAI-compatible server, or its name in `remotes.toml`. None: the remote that
    `outrider remote use` chose, otherwise `bundled`: the bundled verifier, started on this device."""
    remote_model: str | None = None
    """Model of an OpenAI-compatible server. None: the first that it lists."""
    token: str | None = None
    """Bearer token of `remote`, if that is an address. It is dropped when `remote` changes to another server."""
    system: PromptName | None = None
    """Name of the system prompt for new conversations, in the library of `outrider system`. The prompt of a
    conversation, of the command line or of a remote takes precedence. None or `none`: no system prompt."""
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    """Sampling temperature, at most 2; 0 always takes the likeliest token. None: 0, but an OpenAI-compatible server
    uses its own default."""
    top_k: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Sample from this many of the most likely tokens; 0 means all."""
    top_p: Probability = 1.0
    """Sample from the most likely tokens that together have this probability."""
    seed: int | None = None
    """Makes a sampled answer reproducible, unless `tree` is sampled. None: a different answer each time."""
    max_tokens: Count | None = None
    """Maximum number of tokens in an answer, as the server counts them. None: no limit except the context. The drafter
    alone writes at most 512."""
    first_words_timeout: Annotated[float, msgspec.Meta(gt=0, le=86400)] = 600.0
    """Maximum wait, in seconds, for the first words of an OpenAI-compatible server, which may have to load a model,
    read a long conversation, or reason; also for further words while the connection is alive."""
    pace: PaceRule = "measured"
    """measured: the size of a draft tree follows from the measured times of network, verifier and drafter, up to
    `depth`, `breadth` and `nodes`; a sampled tree has at most 8 levels and 60 nodes. fixed: always the maximum size."""
    depth: Count = 32
    """Maximum number of levels in a draft tree."""
    breadth: Count = 8
    """Maximum number of nodes per level that get children."""
    nodes: Count = 128
    """Maximum number of nodes in a draft tree."""
    second_stage: bool = True
    """Guess the next text from earlier text, also from other conversations; the drafter checks the guesses. Changes the
    speed, never the answer."""
    learn: bool = True
    """Keep data that the drafter can learn from, some kilobytes per answer, on this device, and draft with what
    `outrider learn` made of it."""
    ahead: bool = True
    """While a round is in flight, draft for its likeliest outcomes where that saves time. Changes the speed, never the
    answer. Sampled trees are never drafted ahead."""
    tree: TreeRule = "deterministic"
    """Draft trees at a temperature above 0. deterministic: the likeliest tokens; a seed makes the answer
    reproducible. sampled: drawn from the drafter, verified by recursive rejection; the distribution is the same, but
    no seed makes the answer reproducible."""
    drafter: str = str(BUNDLED_DRAFTER)
    """Folder of the drafter."""
    drafter_runtime: DrafterRuntime = "onnx"
    """Runtime of the drafter. onnx: ONNX Runtime, on the CPU. torch: PyTorch, on a GPU if there is one; needs the extra
    `server`."""
    target: str = str(BUNDLED_TARGET)
    """Model to run on this device without a server: a folder, a GGUF file, or a name on the hub."""
    keys: dict[str, str | dict[str, str]] = {}
    """Keys of the screen's actions, such as `chat.new = "f11,ctrl+n"`; `outrider keys` lists the actions."""
    shell_command_key: ShellKey = "alt-m"
    """Key in the shell that turns the words of the line into a command: `alt-` or `ctrl-` and a letter, or two such
    keys separated by a space. Takes effect in a new shell."""
    shell_explain_key: ShellKey = "alt-i"
    """Key in the shell that explains the command of the line."""
    shell_ghost: bool = False
    """In zsh, show a command, dimmed, after the words as you type: the closest example of the pages on this device."""
    shell_idle_minutes: Annotated[float, msgspec.Meta(gt=0, le=1440)] = 15.0
    """Minutes without a question after which the shell helper exits and frees its memory."""
    titles: Titles = "free"
    """Whether the model gives a new conversation its title, after the first answer. free: only where that costs
    nothing, on servers on this device and on Outrider's servers. always: on all servers. off: the first question is the
    title."""
    log: LogLevel = "info"
    """Level of the log. debug: also the text of errors, which may quote a conversation."""

    def replaced(self, changes: Mapping[str, object], source: str) -> Settings:
        """These settings with checked `changes`. Raises `ConfigError`, which names `source`.

        A new remote without a token never gets the token of another server.
        """
        if "remote" in changes and "token" not in changes and not same_server(self.remote, changes["remote"]):
            changes = {**changes, "token": None}
        if isinstance(token := changes.get("token"), str):
            try:
                changes = {**changes, "token": bearer_token(token) if token.strip() else None}
            except ValueError as error:
                raise ConfigError(f"{source}: {error}") from None
        try:
            return msgspec.convert({**msgspec.structs.asdict(self), **changes}, Settings, strict=False)
        except msgspec.ValidationError as error:
            raise ConfigError(f"{source}: {_explain(error, changes)}") from None


def is_address(remote: str) -> bool:
    """Whether a remote is an address, not a name."""
    return remote.startswith(("http://", "https://"))


def same_server(url: object, other: object) -> bool:
    """Whether two addresses have the same scheme, host and port, so that a token for one may go to the other."""
    if not (isinstance(url, str) and isinstance(other, str) and is_address(url) and is_address(other)):
        return False
    try:
        return origin(url) == origin(other)
    except ValueError:  # A port that is not a number.
        return False


def origin(url: str) -> str:
    """Scheme, host and port of an address, as browsers compare them. Raises `ValueError` for a bad port."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return f"{parts.scheme}://{parts.hostname}:{port}"


@dataclass(frozen=True)
class Folders:
    """The folders of config, data and logs. Each is created only when something is written to it."""

    config: Path
    data: Path
    logs: Path
    saved: bool = True
    """Whether conversations are kept in a file; if False, in memory until the program ends."""

    @property
    def settings(self) -> Path:
        return self.config / "config.toml"

    @property
    def database(self) -> Path:
        return self.data / "outrider.db" if self.saved else Path(":memory:")

    @property
    def servers(self) -> Path:
        """File of the model last seen at each address."""
        return self.data / "servers.json"

    @property
    def made(self) -> Path:
        """Folder of the drafters that `outrider serve` made here."""
        return self.data / "drafters" / "made"

    @property
    def texts(self) -> Path:
        """Folder of the tokenizers that `outrider serve` made from GGUF files."""
        return self.data / "tokenizers"

    @property
    def fetched(self) -> Path:
        """Folder of the drafters that were fetched from servers."""
        return self.data / "drafters" / "fetched"

    @property
    def learnt(self) -> Path:
        """Folder of what drafters learnt here."""
        return self.data / "drafters" / "learnt"

    @property
    def offers(self) -> Path:
        """File of the drafters offered by servers about which the person was informed."""
        return self.data / "offers.json"

    @property
    def log(self) -> Path:
        return self.logs / "outrider.log"

    @classmethod
    def locate(cls, environment: Mapping[str, str] = os.environ) -> Folders:
        """The folders under `OUTRIDER_HOME`, or else the platform's own."""
        if home := environment.get("OUTRIDER_HOME"):
            root = Path(home).expanduser().absolute()
            return cls(root / "config", root / "data", root / "logs")
        from platformdirs import PlatformDirs

        platform = PlatformDirs("outrider", appauthor=False)
        return cls(platform.user_config_path, platform.user_data_path, platform.user_log_path)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn what is wrong with a person's file into a `ConfigError` that says how to correct it."""
    try:
        yield
    except NotText as error:
        raise ConfigError(f"{path} {error}.") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}. Correct it, or delete it to start afresh.") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}. Check its permissions.") from None


def toml_value(value: object) -> str:
    """A text, a number or a boolean as TOML. Raises `UnicodeEncodeError`."""
    # What is JSON is TOML, except for DEL, which JSON does not escape.
    return msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """The same for a file that is written."""
    try:
        yield
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}. Nothing was changed.") from None
    except UnicodeEncodeError:
        raise ConfigError(f"{path} cannot hold a name that is not UTF-8. Nothing was changed.") from None


def load_settings(folders: Folders, environment: Mapping[str, str] = os.environ) -> Settings:
    """Read the settings: the defaults, then the file, then the environment. An empty variable counts as not set.

    Raises `ConfigError`, which names the mistake and where it is.
    """
    settings = Settings()
    path = folders.settings
    with reading(path), suppress(FileNotFoundError, NotADirectoryError):
        settings = settings.replaced(tomllib.loads(read_text(path)), str(path))
    for name in Settings.__struct_fields__:
        variable = PREFIX + name.upper()
        if value := environment.get(variable):
            settings = settings.replaced({name: value}, variable)
    return settings


def _no_key(value: object, name: str, tables: int = 2) -> str | None:
    """The name of the first action that has no text for its keys, within this many nested tables."""
    if not isinstance(value, dict) or not tables:
        return None if isinstance(value, str) else name
    inside = (_no_key(keys, f"{name}.{action}", tables - 1) for action, keys in value.items())
    return next(filter(None, inside), None)


def _explain(error: msgspec.ValidationError, changes: Mapping[str, object]) -> str:
    """msgspec's message about these settings in plain words, with their names."""
    sentence, _, place = str(error).replace("`", "'").partition(" - at '$.")
    name = place.rstrip("'")
    if name.startswith("keys["):
        return f'{_no_key(changes["keys"], "keys")}: write a key in quotes, such as "f11" or "f11,ctrl+n"'
    if "unknown field" in sentence:
        wrong = sentence.removeprefix("Object contains unknown field ")
        if near := difflib.get_close_matches(wrong.strip("'"), Settings.__struct_fields__, 1):
            return f"there is no setting {wrong}; did you mean {near[0]}?"
        return f"there is no setting {wrong}; the settings are {', '.join(Settings.__struct_fields__)}"
    if "(alt|ctrl)" in sentence:
        return f"{name} is not a key: write alt-m, ctrl-t, or two keys as ctrl-x ctrl-m"
    if "{0,62}" in sentence:
        return f"{name} is the name of a system prompt: letters, digits, dots, dashes, underscores"
    if "https?://" in sentence:
        return "remote is neither an address, which starts with http:// or https://, nor a name of a server"
    if "enum" in sentence:
        choices = get_args(CHOICES[name])
        return f"{name} is {' or '.join(choices)}, not {sentence.rpartition('value ')[2]}"
    plain = sentence.replace(" | null'", "'").replace("'int'", "a whole number").replace("'float'", "a number")
    plain = plain.replace("'bool'", "true or false").replace("'object'", "a table")
    plain = plain.replace("got 'str'", "got text").replace("'str'", "text in quotes")
    return f"{name}: {plain[:1].lower()}{plain[1:]}"
