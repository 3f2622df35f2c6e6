"""Puts the parts together for one run of the program: drafter, database, verifier, assistant."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from app.config import ConfigError, Folders, Settings, is_address
from app.remotes.connection import Fixed, Source, SourceFailed
from app.remotes.last_seen import Seen
from app.remotes.loopback import Loopback
from app.remotes.named import Named
from app.remotes.registry import Remotes
from app.reply.assistant import Assistant
from drafter.runtime import Drafter
from remote import Kind, Misconfigured, TransportOptions, VerifierClient
from storage import Store


@asynccontextmanager
async def open_assistant(settings: Settings, folders: Folders, *, draft: bool = True) -> AsyncIterator[Assistant]:
    """An assistant with its database, connecting; a verifier that it starts ends with it.

    Raises `DrafterError`, `StorageError`, `Misconfigured`, `ConfigError`.
    """
    with Store.open(folders.database) as store:
        async with assistant_on(store, settings, folders, source_of(settings, folders), draft=draft) as assistant:
            yield assistant


@asynccontextmanager
async def assistant_on(
    store: Store,
    settings: Settings,
    folders: Folders,
    source: Source | None,
    *,
    draft: bool = True,
    early: bool = False,
) -> AsyncIterator[Assistant]:
    """An assistant on a database that is open, and stays open, with the verifier of `source`. Raises `DrafterError`."""
    drafter = await asyncio.to_thread(Drafter.load, Path(settings.drafter), settings.drafter_runtime)
    seen = await asyncio.to_thread(Seen, folders.servers)
    async with Assistant(drafter, store, source, settings, draft=draft, seen=seen, early=early) as assistant:
        yield assistant


def source_of(settings: Settings, folders: Folders) -> Source | None:
    """Where the settings say that the verifier is; None where none is wanted.

    Raises `Misconfigured`, and `ConfigError` for a remote that is not known.
    """
    if settings.mode == "offline":
        return None
    if settings.remote and is_address(settings.remote):
        return Fixed(settings.remote, settings.token, settings.remote_model)
    remotes = Remotes(folders)
    return source_named(remotes.meant_by(settings.remote), remotes, settings)


class Unusable:
    """In the place of a verifier that the settings get wrong: a reason to be offline, none not to draft."""

    address = None
    own = False
    chat = None
    model = None
    name = None
    kind: Kind = "auto"
    options = TransportOptions()

    def __init__(self, why: str) -> None:
        self._why = why

    async def client(self) -> VerifierClient:
        raise SourceFailed(self._why)

    async def gone(self) -> None:
        await asyncio.Event().wait()

    async def close(self) -> None:
        pass


def usable_source(settings: Settings, folders: Folders) -> Source | None:
    """The same for a window, in which a broken setting is a reason to be offline."""
    try:
        return source_of(settings, folders)
    except (ConfigError, Misconfigured) as error:
        return Unusable(str(error))


def source_named(name: str | None, remotes: Remotes, settings: Settings) -> Source:
    """One of the remotes; None: the bundled verifier. Raises `ConfigError`."""
    if name is None:
        return Loopback(settings.target, settings.drafter)
    return Named(name, remotes, settings.remote_model)
