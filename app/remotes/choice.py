"""Resolves the server that the settings or a conversation name to a place to connect to."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from app.config import ConfigError, Folders, Settings, is_address
from app.remotes.loopback import Loopback
from app.remotes.registry import BUNDLED, Remotes
from app.remotes.source import AddressSource, RemoteSource, Source, SourceFailed
from remote import Misconfigured, VerifierClient
from storage import Choices


class Server(NamedTuple):
    """The server and model that answer a conversation."""

    remote: str | None = None
    """Name of a remote, or `bundled`, or None for the one in the settings."""
    model: str | None = None
    """Model to ask there, or None for that of the remote or the settings, or else the first."""


class Asks(NamedTuple):
    """The server and model named on the command line."""

    model: str | None = None
    """Model of the server in the settings, if one was named."""
    explicit: bool = False
    """Whether a server or a model was named, so that earlier choices for a conversation do not count."""


DEFAULT = Server()
"""The server of a conversation for which none was chosen."""


def source_of(settings: Settings, folders: Folders, model: str | None = None) -> Source | None:
    """The server of the settings, or None if the drafter of the settings answers without one.

    In mode offline only the bundled one is connected to; another one determines who may write in its place. `model`:
    overrides the model of a remote or a setting. Raises `Misconfigured`, and `ConfigError` for an unknown remote, or a
    model that the bundled server does not have.
    """
    if settings.remote and is_address(settings.remote):
        return AddressSource(settings.remote, settings.token, model or settings.remote_model)
    try:
        remotes = Remotes(folders)
    except ConfigError:
        if settings.mode == "offline" and settings.remote is None:  # No server is named, and none is needed.
            return _unless_alone(bundled_source(settings, model), settings)
        raise
    return _unless_alone(source_named(remotes.meant_by(settings.remote), remotes, settings, model), settings)


def _unless_alone(source: Source, settings: Settings) -> Source | None:
    """The source, or None in mode offline for a bundled server that cannot start then: its drafter answers alone."""
    alone = isinstance(source, Loopback) and not source.needs_no_network
    return None if settings.mode == "offline" and alone else source


def source_named(name: str | None, remotes: Remotes, settings: Settings, model: str | None = None) -> Source:
    """The remote with this name, or else the bundled server. `model`: as in `source_of`. Raises `ConfigError`."""
    if name is None:
        return bundled_source(settings, model)
    source = RemoteSource(name, remotes, settings.remote_model)
    source.model = model or source.model
    return source


def bundled_source(settings: Settings, model: str | None) -> Loopback:
    """The bundled server. Raises `ConfigError` for another model than its own."""
    if model is not None and model != (bundled := bundled_model(settings)):
        raise ConfigError(
            f"the bundled server has one model, {bundled}, and not {model}; `outrider models` lists all models"
        )
    return Loopback(settings.target, settings.drafter)


def bundled_model(settings: Settings) -> str:
    """Name of the bundled server's model, which is started only when it is needed."""
    return Path(settings.target).name


def server_named(settings: Settings, folders: Folders, model: str | None) -> Server:
    """The server of the settings, with this model, as a conversation can store it. `DEFAULT` if it has no name.

    Raises `ConfigError` for a remote that is not known.
    """
    if settings.remote and is_address(settings.remote):
        return DEFAULT
    return Server(Remotes(folders).meant_by(settings.remote) or BUNDLED, model)


def choices_named(settings: Settings, folders: Folders, asks: Asks) -> Choices:
    """The server and model named on the command line, as a new conversation stores them. Raises `ConfigError`."""
    server = server_named(settings, folders, asks.model) if asks.explicit else DEFAULT
    return Choices(remote=server.remote, model=server.model)


def source_chosen(server: Server, settings: Settings, folders: Folders) -> Source | None:
    """The server that was chosen for one conversation, or None as for `source_of`.

    If the server is no longer known, connecting fails and says so: no other server is asked instead.
    """
    try:
        if server.remote is None:
            return source_of(settings, folders, server.model)
        remotes = Remotes(folders)
        if server.remote not in (BUNDLED, *(name for name, _ in remotes)):
            return UnusableSource(
                f"the server {server.remote}, which was chosen for this conversation, is no longer in the list; "
                "choose another model for it"
            )
        named = None if server.remote == BUNDLED else server.remote
        return _unless_alone(source_named(named, remotes, settings, server.model), settings)
    except (ConfigError, Misconfigured) as error:
        return UnusableSource(str(error))


def usable_source(settings: Settings, folders: Folders, model: str | None = None) -> Source | None:
    """As `source_of`, for a window: if a setting is wrong, the window opens offline, with the reason."""
    try:
        return source_of(settings, folders, model)
    except (ConfigError, Misconfigured) as error:
        return UnusableSource(str(error))


class UnusableSource(Source):
    """Stands for a verifier with invalid settings. Connecting to it fails with the reason."""

    def __init__(self, why: str, name: str | None = None) -> None:
        self._why, self.name = why, name

    async def client(self) -> VerifierClient:
        """Raises `SourceFailed`, always."""
        raise SourceFailed(self._why)
