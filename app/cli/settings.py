"""The settings of one command: files and environment, with the command line's options on top."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.config import Folders, Settings

COMPLETION = "_OUTRIDER_COMPLETE"
"""Environment variable of a shell that asks for completions. Such a call has no arguments."""


def settings_with(**options: object) -> tuple[Settings, Folders]:
    """Load the settings, put `options` that are not None on top, and open the log. Raises `ConfigError`."""
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


def unsaved(settings: Settings, folders: Folders) -> tuple[Settings, Folders]:
    """Settings and folders of a command that keeps nothing: its database is in memory, where no question can wait."""
    import dataclasses

    from msgspec import structs

    offline = "fail" if settings.offline == "queue" else settings.offline
    return structs.replace(settings, offline=offline), dataclasses.replace(folders, saved=False)
