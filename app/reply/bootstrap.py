"""Puts the parts together for one run of the program: drafter, database, server, assistant."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from app.config import BUNDLED_DRAFTER, ConfigError, Folders, Settings
from app.log import log
from app.reply.assistant import Assistant
from storage import Choices, Store
from storage.choices import NONE

if TYPE_CHECKING:
    from app.remotes.choice import Asks
    from app.remotes.source import Source
    from app.reply.routing import Options
    from app.tools.tool import Tools
    from drafter.runtime import Drafter
    from drafter.shelf import Drafters

# Nothing heavy is imported at module level: a window imports this module before its first frame.


@asynccontextmanager
async def open_assistant(
    settings: Settings,
    folders: Folders,
    asks: Asks | None = None,
    *,
    draft: bool = True,
    conversation: str | None = None,
    last: bool = False,
    fixed: Collection[str] = (),
    tools: bool = False,
) -> AsyncIterator[Assistant]:
    """Open an assistant with its own database. It connects in the background, and ends a verifier that it started.

    `asks`: the server named on the command line. `conversation`: the one to be continued, or the beginning of its id;
    `last`: the last one. The assistant connects to its server; each conversation is answered by the server chosen for
    it. `fixed`: settings that no conversation overrides. `tools`: offer the tools of conversations that have some; then
    each `ToolCalled` that asks must be answered with `Assistant.decide`. Raises `DrafterError`, `StorageError`,
    `Misconfigured`, `ConfigError`.
    """
    from app.exits import complain
    from app.remotes.choice import Asks, source_of

    asks = asks or Asks()
    with Store.open(folders.database) as store:
        continued = store.conversations.to_continue(conversation, last=last)
        shown = NONE if continued is None else store.conversations.get(continued).choices
        source = source_of(settings, folders, asks.model)
        options = await options_of(settings, folders, source, complain)
        options = replace(
            options,
            draft=draft,
            chosen=None if asks.explicit else options.chosen,
            fixed=frozenset(fixed),
            tools=partial(mcp_tools, folders) if tools else None,
        )
        async with Assistant(store, options) as assistant:
            assistant.follow(shown)
            yield assistant


def assistant_of_window(
    store: Store, settings: Settings, folders: Folders, model: str | None = None, *, fixed: Collection[str] = ()
) -> Assistant:
    """The assistant of a window, which loads what it needs in the background after `start`.

    `model`: the model to ask the server of the settings for, if the command line names one. `fixed`: settings that no
    server overrides.
    """

    async def load(shown: Choices) -> Options:
        if model is None and shown.remote is None:
            # This comes first, so that the server loads in parallel with this process.
            import_module("app.remotes.own_server").start_ahead(settings, folders)
        await asyncio.to_thread(import_module, "app.reply.backend")
        source = import_module("app.remotes.choice").usable_source(settings, folders, model)
        options = await options_of(settings, folders, source, log.warning)  # `StandIns.trouble` is on the screen.
        # A window is still open when the server is back, so a question may wait; a command has ended by then.
        waits = options.settings.replaced({"offline": options.settings.offline or "queue"}, "the screen")
        tools = partial(mcp_tools, folders)
        return replace(options, settings=waits, early=True, fixed=frozenset(fixed), tools=tools)

    return Assistant(store, load)


async def options_of(
    settings: Settings, folders: Folders, source: Source | None, tell: Callable[[str], None]
) -> Options:
    """The options of a person's assistant. `source`: the default server. `tell`: as for `with_stand_in`.

    Raises `DrafterError`, `ConfigError`.
    """
    from app.remotes.choice import source_chosen
    from app.remotes.last_seen import LastSeen
    from app.reply.routing import Options
    from app.system_prompts import SystemPrompts
    from drafter.runtime import Drafter

    settings = with_stand_in(settings, folders, tell)
    drafter = await asyncio.to_thread(Drafter.load, Path(settings.drafter), settings.drafter_runtime)
    return Options(
        drafters_of(drafter, settings, folders),
        source,
        settings,
        seen=await asyncio.to_thread(LastSeen, folders.servers),
        chosen=partial(source_chosen, settings=settings, folders=folders),
        prompts=SystemPrompts(folders),
        learnt=folders.learnt if folders.saved else None,
        stand_in=partial(local_model, folders),
        texts=folders.texts if folders.saved else None,
    )


def with_stand_in(settings: Settings, folders: Folders, tell: Callable[[str], None]) -> Settings:
    """The settings, with the name of the model on this device that stands in for servers.

    If the file of these models cannot be read and the settings need none, `tell` gets the reason. Raises `ConfigError`.
    """
    from app.local.registry import LocalModels

    try:
        models = LocalModels(folders)
    except ConfigError as error:
        if settings.offline == "local" or settings.local is not None:
            raise
        tell(f"{error} Until then no model on this device stands in.")
        return settings
    return settings.replaced(models.while_away(settings)._asdict(), "the local models")


def mcp_tools(folders: Folders) -> Tools:
    """The tools of the MCP servers that the person has added. Raises `NoAnswer` if the SDK is not installed."""
    try:
        from app.tools.servers import Servers
    except ModuleNotFoundError as missing:
        if missing.name not in ("mcp", "mcp_types", "httpx2"):
            raise
        from app.reply.errors import NoAnswer
        from models.extras import how_to_install

        told = f"This conversation has tools, which need the MCP SDK: {how_to_install('tools')}, or ask without tools."
        raise NoAnswer(told, "internal") from None
    return Servers(folders)


def local_model(folders: Folders, name: str | None) -> Source:
    """The source of a model on this device. If there is none of that name, connecting fails and says so."""
    from app.local.registry import LocalModels
    from app.remotes.choice import UnusableSource
    from app.remotes.loopback import LocalModel

    try:
        return LocalModel(*LocalModels(folders).chosen(name))
    except ConfigError as error:
        return UnusableSource(str(error), name)


def drafters_of(drafter: Drafter, settings: Settings, folders: Folders) -> Drafters:
    """The given drafter and the downloaded ones. A drafter that the settings name drafts for every model."""
    from drafter.shelf import Drafters

    if settings.drafter != str(BUNDLED_DRAFTER):
        return Drafters(drafter)
    return Drafters(drafter, folders.fetched, folders.made)
