"""The settings of one command: files and environment, overridden by its options; and the options of `outrider ask`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from app.config import ChosenMode, Folders, Settings
    from app.remotes.choice import Asks
    from app.system_prompts import SystemPrompt
    from storage import Store

COMPLETION = "_OUTRIDER_COMPLETE"
"""Environment variable of a shell that asks for completions. Such a call has no arguments."""


def settings_with(**options: object) -> tuple[Settings, Folders]:
    """Load the settings, override them by `options` that are not None, and open the log. Raises `ConfigError`."""
    from app.config import ConfigError, Folders, is_address, load_settings
    from app.exits import complain
    from app.log import open_log

    folders = Folders.locate()
    given = {name: value for name, value in options.items() if value is not None}
    loaded = load_settings(folders)
    settings = loaded.replaced(given, "the command line")
    if "token" in given and not is_address(settings.remote or ""):
        raise ConfigError(
            "--token-file is only for an address. The token of a named server: outrider remote token NAME"
        )
    open_log(folders.log, settings.log, [loaded.token or "", settings.token or ""])
    if loaded.token and settings.token is None and is_address(settings.remote or "") and not loaded.remote:
        complain(
            "The token in OUTRIDER_TOKEN or config.toml is not sent, because no address is set there. "
            "Set `remote` too, or give --token-file."
        )
    return settings, folders


def stands_in(local: str | None) -> dict[str, str]:
    return {} if local is None else {"offline": "local", "local": local}


def opened_store() -> Store:
    """Open the store of the settings, for a command that writes. Raises `ConfigError`, `StorageError`."""
    from storage import Store

    return Store.open(settings_with()[1].database)


def read_store() -> Store:
    """Open the store of the settings, for a command that only reads. Raises `ConfigError`, `StorageError`."""
    from storage import Store

    return Store.read(settings_with()[1].database)


def unsaved(settings: Settings, folders: Folders) -> tuple[Settings, Folders]:
    """Settings and folders of a command that stores nothing.

    Its database is in memory, so no question can be queued.
    """
    import dataclasses

    from msgspec import structs

    offline = "fail" if settings.offline == "queue" else settings.offline
    return structs.replace(settings, offline=offline), dataclasses.replace(folders, saved=False)


@dataclass(frozen=True, kw_only=True)
class AskOptions:
    conversation: str | None = None
    """The first characters of the id of the conversation to continue."""
    last: bool = False
    json: bool = False
    remote: str | None = None
    model: str | None = None
    token: str | None = None
    mode: ChosenMode | None = None
    local: str | None = None
    """The model on this device that answers while the server is away."""
    system: SystemPrompt | None = None
    """The new system prompt, or None to keep the conversation's own."""
    temperature: float | None = None
    seed: int | None = None
    tree: Literal["deterministic", "sampled"] | None = None
    max_tokens: int | None = None
    draft: bool = True
    prompts: Path | None = None
    files: Sequence[str] = ()
    template: str | None = None
    """The name of the template that makes the question."""
    variables: Sequence[str] = ()
    """Values of its variables, each as NAME=TEXT."""
    extract: Literal["last", "all"] | None = None
    """Which code blocks are printed instead of the answer."""
    tools: Sequence[str] = ()
    """MCP servers whose tools are offered to the model in this conversation."""
    allow: Sequence[str] = ()
    """Tools whose calls need no further yes in this run."""
    save: bool = True
    queue: bool = False

    @property
    def asks(self) -> Asks:
        """The server and the model that the options name."""
        from app.remotes.choice import Asks

        return Asks(self.model, explicit=self.remote is not None or self.model is not None)

    @property
    def continues(self) -> bool:
        return self.last or self.conversation is not None

    @property
    def for_this_answer(self) -> bool:
        """Whether there are options that count only in this run, such as a temperature."""
        once = (self.token, self.mode, self.local, self.temperature, self.seed, self.tree, self.max_tokens)
        return bool(self.allow) or any(one is not None for one in once)

    @property
    def fixed(self) -> list[str]:
        """Names of the settings that the options override, whatever was chosen for the conversation or its server."""
        sampling = [name for name in ("temperature", "seed", "max_tokens") if getattr(self, name) is not None]
        return [*sampling, *stands_in(self.local)]
