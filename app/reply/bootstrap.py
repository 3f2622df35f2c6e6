"""Puts the parts together for one run of the program: drafter, database, verifier, assistant."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from app.config import BUNDLED_DRAFTER, Folders, Settings
from app.remotes.choice import Asks, source_chosen, source_of
from app.remotes.last_seen import LastSeen
from app.remotes.source import Source
from app.reply.assistant import Assistant
from app.system_prompts import SystemPrompts
from drafter.runtime import Drafter
from drafter.shelf import Drafters
from storage import Choices, Store
from storage.choices import NONE


@asynccontextmanager
async def open_assistant(
    settings: Settings,
    folders: Folders,
    asks: Asks = Asks(),  # noqa: B008 - it cannot change.
    *,
    draft: bool = True,
    conversation: str | None = None,
    last: bool = False,
    fixed: Collection[str] = (),
) -> AsyncIterator[Assistant]:
    """An assistant that connects in the background, with its own database. A verifier that it starts ends with it.

    `asks`: whom the command line names. `conversation`: the one that will go on, or how its id begins; `last`: the last
    one. Its server is connected to, and each conversation is answered by the server that was chosen for it. `fixed`:
    settings that no conversation replaces. Raises `DrafterError`, `StorageError`, `Misconfigured`, `ConfigError`.
    """
    with Store.open(folders.database) as store:
        continued = store.conversations.to_continue(conversation, last=last)
        shown = NONE if continued is None else store.conversations.get(continued).choices
        source = source_of(settings, folders, asks.model)
        opening = assistant_on(
            store, settings, folders, source, draft=draft, shown=shown, follows=not asks.explicit, fixed=fixed
        )
        async with opening as assistant:
            yield assistant


def drafters_of(drafter: Drafter, settings: Settings, folders: Folders) -> Drafters:
    """That drafter and those that were fetched. A drafter that the settings name drafts for every model."""
    if settings.drafter != str(BUNDLED_DRAFTER):
        return Drafters(drafter)
    return Drafters(drafter, folders.fetched, folders.made)


@asynccontextmanager
async def assistant_on(
    store: Store,
    settings: Settings,
    folders: Folders,
    source: Source | None,
    *,
    draft: bool = True,
    early: bool = False,
    shown: Choices = NONE,
    follows: bool = True,
    fixed: Collection[str] = (),
) -> AsyncIterator[Assistant]:
    """An assistant on a database that is open, and stays open. `source`: the default server. Raises `DrafterError`.

    `shown`: what was chosen for the conversation that is open. `follows`: each conversation is answered by the server
    that was chosen for it.
    """
    drafter = await asyncio.to_thread(Drafter.load, Path(settings.drafter), settings.drafter_runtime)
    seen = await asyncio.to_thread(LastSeen, folders.servers)
    assistant = Assistant(
        drafter,
        store,
        source,
        settings,
        draft=draft,
        seen=seen,
        early=early,
        chosen=partial(source_chosen, settings=settings, folders=folders) if follows else None,
        prompts=SystemPrompts(folders),
        fixed=fixed,
        drafters=drafters_of(drafter, settings, folders),
        learnt=folders.learnt if folders.saved else None,
    )
    assistant.follow(shown)
    async with assistant:
        yield assistant
