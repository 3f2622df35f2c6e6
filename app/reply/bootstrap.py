"""Puts the parts together for one run of the program: drafter, database, verifier, assistant."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from app.config import Folders, Settings
from app.remotes.choice import source_of
from app.remotes.last_seen import LastSeen
from app.remotes.source import Source
from app.reply.assistant import Assistant
from drafter.runtime import Drafter
from storage import Store


@asynccontextmanager
async def open_assistant(settings: Settings, folders: Folders, *, draft: bool = True) -> AsyncIterator[Assistant]:
    """An assistant that connects in the background, with its own database. A verifier that it starts ends with it.

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
    seen = await asyncio.to_thread(LastSeen, folders.servers)
    async with Assistant(drafter, store, source, settings, draft=draft, seen=seen, early=early) as assistant:
        yield assistant
