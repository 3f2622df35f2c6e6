"""Settings: typed, read from a TOML file in the platform's config folder, overridden by `OUTRIDER_*` variables.

`OUTRIDER_HOME` moves config, data and logs under one folder. The command line overrides both, through
`Settings.replaced`, so that every value passes the same checks wherever it came from.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, get_args
from urllib.parse import urlsplit

import msgspec

PREFIX = "OUTRIDER_"
REPOSITORY = Path(__file__).resolve().parent.parent
BUNDLED_DRAFTER = REPOSITORY / "drafter" / "pretrained" / "shell-guide"
BUNDLED_TARGET = REPOSITORY / "remote" / "verifier" / "pretrained" / "shell-guide"

ChosenMode = Literal["auto", "edge", "hosted", "offline"]
TreeRule = Literal["deterministic", "sampled"]
DrafterRuntime = Literal["onnx", "torch"]
PaceRule = Literal["measured", "fixed"]
Unanswered = Literal["queue", "fail", "drafter"]
LogLevel = Literal["debug", "info", "warning", "error"]
CHOICES = {
    "mode": ChosenMode,
    "offline": Unanswered,
    "pace": PaceRule,
    "tree": TreeRule,
    "drafter_runtime": DrafterRuntime,
    "log": LogLevel,
}
LONGEST = 512
"""Tokens of an answer, where nothing else is said."""
Count = Annotated[int, msgspec.Meta(ge=1)]
Probability = Annotated[float, msgspec.Meta(gt=0, le=1)]
Url = Annotated[str, msgspec.Meta(pattern="^https?://[^/]")]
UrlOrName = Annotated[str, msgspec.Meta(pattern="^(https?://[^/]|[A-Za-z0-9][A-Za-z0-9._-]*$)")]


class ConfigError(Exception):
    """A setting that cannot be used; the message names the setting, where it came from, and what it takes."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a person can choose. Each name is a key of the file and, in capitals after `OUTRIDER_`, a variable."""

    mode: ChosenMode = "auto"
    """auto: with the verifier while it answers, drafting here or there, whichever is faster; else the drafter alone.
    edge: drafted here and verified there, never without it. hosted: drafted there too. offline: never with it."""
    offline: Unanswered | None = None
    """What becomes of a question while its server is away, where the drafter was not made for that server's model.
    queue: it waits, and is asked when the server is back. fail: it fails with a sentence. drafter: the drafter answers
    in the server's place. None: the chat queues, `outrider ask` fails."""
    remote: UrlOrName | None = None
    """Address of a verifier or an OpenAI-compatible server, or its name in `remotes.toml`. None: the one that
    `outrider remote use` chose; `bundled`, or where none was chosen: the bundled verifier, started on this device."""
    remote_model: str | None = None
    """What to ask an OpenAI-compatible server for; None: the first model that it lists."""
    token: str | None = None
    """Bearer token of `remote`, where that is an address. Another `remote` drops it, unless it is the same server."""
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] = 0.0
    """0: always the likeliest token. 2 at most, as other programs have it: above it answers turn into noise."""
    top_k: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Sample among so many likeliest tokens; 0: all."""
    top_p: Probability = 1.0
    """Sample among the likeliest tokens that hold this probability."""
    seed: int | None = None
    """Fixes a sampled answer, unless trees are sampled too; None: another one each time."""
    max_tokens: Count | None = None
    """Longest answer, in tokens. None: 512 of a verifier and the drafter; of an OpenAI-compatible server as many as it
    gives."""
    first_words_timeout: Annotated[float, msgspec.Meta(gt=0, le=86400)] = 600.0
    """Longest wait, in seconds, for the first words of an OpenAI-compatible server, and for more while its line is
    alive: a model may have to be loaded, read a long conversation, or reason."""
    pace: PaceRule = "measured"
    """measured: a draft tree is as large as pays, by what the line, the verifier and the drafter have taken so far, and
    no larger than `depth`, `breadth` and `nodes`; a sampled one has at most 8 levels and 60 nodes. fixed: of that
    size."""
    depth: Count = 32
    """Most levels of a draft tree."""
    breadth: Count = 8
    """Most nodes that a level grows from."""
    nodes: Count = 128
    """Most nodes of a draft tree."""
    second_stage: bool = True
    """Guess what comes next from what was said before, here and in stored conversations, and let the drafter check it.
    Changes how fast an answer is written, never the answer."""
    ahead: bool = True
    """While a round is in flight, draft for its likeliest outcomes, where that pays. Changes how fast an answer is
    written, never the answer. Sampled trees are never drafted ahead."""
    tree: TreeRule = "deterministic"
    """At a temperature above 0. deterministic: of the likeliest tokens; a seed fixes the answer. sampled: drawn from
    the drafter and verified by recursive rejection; the answer follows the same distribution, but not the seed."""
    drafter: str = str(BUNDLED_DRAFTER)
    """Folder of the drafter."""
    drafter_runtime: DrafterRuntime = "onnx"
    """What runs the drafter. onnx: ONNX Runtime, on the CPU. torch: PyTorch, on a GPU where there is one; needs the
    extra `server`."""
    target: str = str(BUNDLED_TARGET)
    """Folder or name of the model that the bundled verifier runs."""
    keys: dict[str, str | dict[str, str]] = {}
    """Keys of the screen by the names that `outrider keys` lists, such as `chat.new = "f5,ctrl+n"`."""
    log: LogLevel = "info"
    """How much is logged. debug: also what errors say, which may quote a conversation."""

    @property
    def most_tokens(self) -> int:
        """Tokens of an answer by a verifier or the drafter."""
        return LONGEST if self.max_tokens is None else self.max_tokens

    def replaced(self, changes: Mapping[str, object], source: str) -> Settings:
        """These settings with `changes`, checked. Raises `ConfigError`, which names `source`.

        A remote that comes without a token gets none that was given for another server.
        """
        if "remote" in changes and "token" not in changes and not same_server(self.remote, changes["remote"]):
            changes = {**changes, "token": None}
        try:
            return msgspec.convert({**msgspec.structs.asdict(self), **changes}, Settings, strict=False)
        except msgspec.ValidationError as error:
            raise ConfigError(f"{source}: {_explain(error)}") from None


def is_address(remote: str) -> bool:
    """Else it is a name."""
    return remote.startswith(("http://", "https://"))


def same_server(url: object, other: object) -> bool:
    """Whether a token for one address may go to the other: scheme, host and port are the same."""
    if not (isinstance(url, str) and isinstance(other, str) and is_address(url) and is_address(other)):
        return False
    try:
        return origin(url) == origin(other)
    except ValueError:  # No port is written so.
        return False


def origin(url: str) -> str:
    """Scheme, host and port, as a browser has it. Raises `ValueError` for a port that is none."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return f"{parts.scheme}://{parts.hostname}:{port}"


@dataclass(frozen=True)
class Folders:
    """Where things live; nothing is created before it is written to."""

    config: Path
    data: Path
    logs: Path

    @property
    def settings(self) -> Path:
        return self.config / "config.toml"

    @property
    def database(self) -> Path:
        return self.data / "outrider.db"

    @property
    def servers(self) -> Path:
        """What was last seen at each server's address."""
        return self.data / "servers.json"

    @property
    def log(self) -> Path:
        return self.logs / "outrider.log"

    @classmethod
    def locate(cls, environment: Mapping[str, str] = os.environ) -> Folders:
        """Under `OUTRIDER_HOME` where that is set, else where the platform keeps such things."""
        if home := environment.get("OUTRIDER_HOME"):
            root = Path(home).expanduser().absolute()
            return cls(root / "config", root / "data", root / "logs")
        from platformdirs import PlatformDirs

        platform = PlatformDirs("outrider", appauthor=False)
        return cls(platform.user_config_path, platform.user_data_path, platform.user_log_path)


def load_settings(folders: Folders, environment: Mapping[str, str] = os.environ) -> Settings:
    """Defaults, then the file, then the environment, in which an empty variable is one that is not set.

    Raises `ConfigError` for what any of them gets wrong.
    """
    settings = Settings()
    path = folders.settings
    try:
        settings = settings.replaced(tomllib.loads(path.read_text(encoding="utf-8")), str(path))
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}. Correct it, or delete it to start afresh.") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}. Check its permissions.") from None
    for name in Settings.__struct_fields__:
        variable = PREFIX + name.upper()
        if value := environment.get(variable):
            settings = settings.replaced({name: value}, variable)
    return settings


def _explain(error: msgspec.ValidationError) -> str:
    """msgspec's own sentence, in the words of the settings."""
    sentence, _, place = str(error).replace("`", "'").partition(" - at '$.")
    name = place.rstrip("'")
    if "unknown field" in sentence:
        wrong = sentence.removeprefix("Object contains unknown field ")
        return f"there is no setting {wrong}; the settings are {', '.join(Settings.__struct_fields__)}"
    if "https?://" in sentence:
        return "remote is neither an address, which starts with http:// or https://, nor a name"
    if "enum" in sentence:
        choices = get_args(CHOICES[name])
        return f"{name} is {' or '.join(choices)}, not {sentence.rpartition('value ')[2]}"
    plain = sentence.replace("'int'", "a whole number").replace("'float'", "a number")
    plain = plain.replace("'int | null'", "a whole number").replace("'str | null'", "'text'")
    plain = plain.replace("'bool'", "true or false").replace("'str", "'text").replace("'object'", "a table")
    return f"{name}: {plain[:1].lower()}{plain[1:]}"
