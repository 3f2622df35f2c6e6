"""`outrider` and `outrider chat`: the chat screen, whose assistant starts in the background."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Collection
from typing import TYPE_CHECKING

from app.cli.settings import settings_with
from app.exits import OK, USAGE, complain, run

if TYPE_CHECKING:
    from app.config import Folders, Settings
    from app.system_prompts import SystemPrompt
    from storage import Choices

WITHOUT_CURSOR = ("dumb", "unknown")
"""Values of TERM for a terminal that only prints, such as an editor's shell window."""
OF_ANOTHER_TERMINAL = ("COLUMNS", "LINES")
"""Size variables that a container or a script passes on. Textual would use them; the terminal itself knows its real
size."""
log = logging.getLogger("outrider.screen")


def chat(
    conversation: str | None = None,
    *,
    last: bool = False,
    model: str | None = None,
    prompt: SystemPrompt | None = None,
    **options: object,
) -> int:
    """Open the chat screen; returns the exit code. Raises `ConfigError`, `StorageError`.

    `conversation`: id of the conversation to open; `last`: the last one; neither: a new one. A server or a `model`
    named on the command line answers the opened conversation and, until the chat ends, each one for which nothing was
    chosen. `prompt`: the system prompt of that one and of new ones, or None for no change.
    `options`: settings of the command line.
    """
    from app.config import ConfigError, is_address

    settings, folders = settings_with(**options)
    if settings.mode != "offline" and settings.remote is not None and not is_address(settings.remote):
        from app.remotes.registry import Remotes

        try:
            remotes = Remotes(folders)
        except ConfigError:
            pass  # The screen reports this and works without remotes.
        else:
            remotes.meant_by(settings.remote)  # A wrong name is reported before the screen hides the message.
    if settings.local is not None:
        from app.local.registry import LocalModels

        LocalModels(folders).get(settings.local)  # As for a server.
    if (reason := _no_screen()) is not None:
        complain(f'{reason} To get an answer without a screen: outrider ask "…"')
        return USAGE
    for name in OF_ANOTHER_TERMINAL:
        os.environ.pop(name, None)
    explicit = model is not None or options.get("remote") is not None
    fixed = [name for name in ("offline", "local") if name in options]
    return run(_screen(settings, folders, conversation, last, model, prompt, fixed, explicit=explicit))


def _no_screen() -> str | None:
    """Why the screen cannot be shown here, or None if it can."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return "The chat screen needs a terminal for its input and its output."
    kind = os.environ.get("TERM", "")
    if kind in WITHOUT_CURSOR:
        return f"The chat screen needs a terminal that can move its cursor, and TERM is {kind!r}."
    return None


async def _screen(
    settings: Settings,
    folders: Folders,
    conversation: str | None,
    last: bool,
    model: str | None,
    prompt: SystemPrompt | None,
    fixed: Collection[str],
    *,
    explicit: bool,
) -> int:
    from msgspec.structs import replace

    from app.remotes.switcher import RemoteSwitcher
    from app.reply.bootstrap import assistant_of_window
    from app.system_prompts import keep_system_prompt
    from app.tui.terminal import TerminalApp
    from storage import Choices, Store

    with Store.open(folders.database) as store:
        chosen = store.conversations.to_continue(conversation, last=last)
        fresh = _named(settings, folders, model) if explicit else Choices()
        if chosen is not None and fresh != Choices():
            changed = replace(store.conversations.get(chosen).choices, remote=fresh.remote, model=fresh.model)
            store.conversations.choose(chosen, changed)
        if chosen is not None and prompt is not None:
            keep_system_prompt(store, chosen, prompt)
        async with assistant_of_window(store, settings, folders, model, fixed=fixed) as core:
            core.follow(fresh if chosen is None else store.conversations.get(chosen).choices)
            switcher = RemoteSwitcher(settings, folders, core, fresh)
            window = TerminalApp(
                core,
                settings,
                switcher,
                conversation=chosen,
                first=Choices() if prompt is None else Choices(system=prompt.text, system_name=prompt.name),
                on_painted=core.start,
            )
            await window.run_async()
            if window.for_shell:
                from app.cli.handover import hand_over

                hand_over(window.for_shell, os.environ)
            if window.crash is not None:
                log.critical("the screen crashed", exc_info=window.crash)
                complain(f"The screen crashed. All answers so far are stored. The log: {folders.log}")
            return window.return_code or OK


def _named(settings: Settings, folders: Folders, model: str | None) -> Choices:
    """The server and model named on the command line, as conversations store them. An address has no name to store.

    Raises `ConfigError`.
    """
    from app.remotes.choice import server_named
    from storage import Choices

    server = server_named(settings, folders, model)
    return Choices(remote=server.remote, model=server.model)
