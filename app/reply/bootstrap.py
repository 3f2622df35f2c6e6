"""Puts the parts together for one run of the program: drafter, database, verifier, assistant."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path

from app.config import Folders, Settings
from app.remotes.choice import source_of
from app.remotes.last_seen import LastSeen
from app.remotes.source import Source
from app.reply.assistant import Assistant
from app.system_prompts import SystemPrompts
from drafter.runtime import Drafter
from storage import Store


@asynccontextmanager
async def open_assistant(
    settings: Settings, folders: Folders, *, draft: bool = True, fixed: Collection[str] = ()
) -> AsyncIterator[Assistant]:
    """An assistant that connects in the background, with its own database. A verifier that it starts ends with it.

    `fixed`: settings that no conversation replaces. Raises `DrafterError`, `StorageError`, `Misconfigured`,
    `ConfigError`.
    """
    with Store.open(folders.database) as store:
        source = source_of(settings, folders)
        async with assistant_on(store, settings, folders, source, draft=draft, fixed=fixed) as assistant:
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
    fixed: Collection[str] = (),
) -> AsyncIterator[Assistant]:
    """An assistant on a database that is open, and stays open, with the verifier of `source`. Raises `DrafterError`."""
    drafter = await asyncio.to_thread(Drafter.load, Path(settings.drafter), settings.drafter_runtime)
    seen = await asyncio.to_thread(LastSeen, folders.servers)
    prompts = SystemPrompts(folders)
    async with Assistant(
        drafter, store, source, settings, draft=draft, seen=seen, early=early, prompts=prompts, fixed=fixed
    ) as assistant:
        yield assistant
