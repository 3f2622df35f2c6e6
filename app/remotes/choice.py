"""The remote that the settings mean, as a place to connect to."""

from __future__ import annotations

import asyncio

from app.config import ConfigError, Folders, Settings, is_address
from app.remotes.loopback import Loopback
from app.remotes.registry import Remotes
from app.remotes.source import AddressSource, RemoteSource, Source, SourceFailed
from remote import Kind, Misconfigured, TransportOptions, VerifierClient


def source_of(settings: Settings, folders: Folders) -> Source | None:
    """The place where the settings say that the verifier is; None: the settings want no verifier.

    Raises `Misconfigured`, and `ConfigError` for a remote that is not known.
    """
    if settings.mode == "offline":
        return None
    if settings.remote and is_address(settings.remote):
        return AddressSource(settings.remote, settings.token, settings.remote_model)
    remotes = Remotes(folders)
    return source_named(remotes.meant_by(settings.remote), remotes, settings)


def source_named(name: str | None, remotes: Remotes, settings: Settings) -> Source:
    """The remote of this name; None: the bundled verifier. Raises `ConfigError`."""
    if name is None:
        return Loopback(settings.target, settings.drafter)
    return RemoteSource(name, remotes, settings.remote_model)


def usable_source(settings: Settings, folders: Folders) -> Source | None:
    """What `source_of` gives, for a window: it opens offline, with the reason, if a setting is wrong."""
    try:
        return source_of(settings, folders)
    except (ConfigError, Misconfigured) as error:
        return UnusableSource(str(error))


class UnusableSource:
    """Stands for a verifier that the settings get wrong. Connecting to it fails with the reason."""

    address = None
    own = False
    chat = None
    model = None
    name = None
    system = None
    kind: Kind = "auto"
    options = TransportOptions()

    def __init__(self, why: str) -> None:
        self._why = why

    async def client(self) -> VerifierClient:
        """Raises `SourceFailed`, always."""
        raise SourceFailed(self._why)

    async def gone(self) -> None:
        """Never returns."""
        await asyncio.Event().wait()

    async def close(self) -> None:
        """There is nothing to close."""
