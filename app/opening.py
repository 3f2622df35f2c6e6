"""Puts the parts together for one run of the program: drafter, database, verifier, assistant."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from app.assistant import Assistant
from app.config import Folders, Settings, is_address
from app.connection import Fixed, Source
from app.loopback import Loopback
from app.named import Named
from app.remotes import Remotes
from drafter.runtime import Drafter
from storage import Store


@asynccontextmanager
async def open_assistant(settings: Settings, folders: Folders, *, draft: bool = True) -> AsyncIterator[Assistant]:
    """An assistant with its database, connecting; a verifier that it starts ends with it.

    Raises `DrafterError`, `StorageError`, `Misconfigured`, `ConfigError`.
    """
    store = Store.open(folders.database)
    try:
        async with assistant_on(store, settings, folders, draft=draft) as assistant:
            yield assistant
    finally:
        store.close()


@asynccontextmanager
async def assistant_on(
    store: Store, settings: Settings, folders: Folders, *, draft: bool = True
) -> AsyncIterator[Assistant]:
    """The same on a database that is open, and stays open. Raises `DrafterError`, `Misconfigured`, `ConfigError`."""
    source = source_of(settings, folders)
    drafter = await asyncio.to_thread(Drafter.load, Path(settings.drafter), settings.drafter_runtime)
    async with Assistant(drafter, store, source, settings, draft=draft) as assistant:
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


def source_named(name: str | None, remotes: Remotes, settings: Settings) -> Source:
    """One of the remotes; None: the bundled verifier. Raises `ConfigError`."""
    if name is None:
        return Loopback(settings.target, settings.drafter)
    return Named(name, remotes, settings.remote_model)
