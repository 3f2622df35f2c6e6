"""The commands of the prompt: which of them are available, what may follow them, and running one.

Most of them are actions of the screen's parts, which keys run too. Commands with their own argument, such as a
title or a file name, are implemented here.
"""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, get_args

from textual.dom import DOMNode
from textual.screen import Screen

from app.archive.formats import ENDINGS, Format
from app.config import Settings
from app.files import expanded
from app.sanitise import one_line, sanitise
from app.tui.background import begin
from app.tui.keymap import key_of
from app.tui.notices import reporting
from app.tui.open_conversation import OpenConversation
from app.tui.screens.chat.conversation import ConversationView
from app.tui.slash import COMMANDS, Misused, SlashCommand, TypedCommand
from app.tui.widgets.sidebar import Sidebar
from storage import Conversation

FORMATS: tuple[Format, ...] = get_args(Format)
ONLY_CODE = "code"
"""The arguments of `/copy`."""
SUMMED = ("show", "undo")
"""Those of `/compact`."""
MONTHS = 3
"""Months that `/usage` shows."""


class PromptCommands:
    def __init__(
        self,
        screen: Screen[None],
        view: ConversationView,
        sidebar: Sidebar,
        conversation: OpenConversation,
        settings: Settings,
    ) -> None:
        self._screen = screen
        self._settings = settings
        self._view = view
        self._sidebar = sidebar
        self._conversation = conversation

    # ---- which there are, and how they run ---------------------------------------------------------------------------

    def offered(self) -> list[SlashCommand]:
        return [one for one in COMMANDS if self._found(one) is not None]

    def values(self, command: SlashCommand) -> Iterable[str]:
        """The values that may follow a command, from the method `values_…` next to its action, or none."""
        place = self._found(command)
        named = getattr(place, f"values_{command.action}", None)
        return [] if named is None else list(named())

    def about(self, command: SlashCommand) -> str:
        """Describe a command: what it does, and the key that does the same."""
        key = key_of(self._view.prompt, command.key) if command.key else ""
        return f"{command.help} ({key})" if key else command.help

    async def run(self, typed: TypedCommand, text: str = "") -> None:
        """Run a command. `text`: as typed. It returns to the prompt if the command is misused."""
        prompt = self._view.prompt
        try:
            await self.act(typed.command, typed.argument)
        except Misused as reason:
            prompt.notify(sanitise(str(reason)), severity="warning", markup=False)
            if text and not prompt.text:
                prompt.put_back(text)

    async def act(self, command: SlashCommand, argument: str = "") -> None:
        """Do a command with what follows it. Raises `Misused`."""
        place = self._found(command)
        if place is None:  # Its object is gone since it was offered.
            raise Misused(f"/{command.word} is not available now.")
        method: Callable[..., Any] = getattr(place, f"action_{command.action}")
        if argument and not inspect.signature(method).parameters:
            raise Misused(f"Type only /{command.word}; then choose from the list.")
        done = method(argument) if argument else method()
        if inspect.isawaitable(done):
            await done

    def _found(self, command: SlashCommand) -> object | None:
        """The first part of the screen that has the action, and allows it now."""
        for place in (self, self._view.messages, self._view, self._screen, self._screen.app):
            if hasattr(place, f"action_{command.action}"):
                allowed = not isinstance(place, DOMNode) or place.check_action(command.action, ())
                return place if allowed else None
        return None

    # ---- the open conversation ---------------------------------------------------------------------------------------

    def _open_one(self) -> Conversation:
        """The open conversation. Raises `Misused`, `StorageError`."""
        conversation = self._conversation
        if conversation.id is None:
            raise Misused("No conversation is open here yet.")
        return conversation.core.store.conversations.get(conversation.id)

    def action_rename_open(self, title: str = "") -> None:
        with reporting(self._screen):
            conversation = self._open_one()
            if title:
                self._sidebar.retitle(conversation, one_line(title))
            else:
                self._sidebar.ask_name(conversation)

    def action_pin_open(self) -> None:
        with reporting(self._screen):
            conversation = self._open_one()
            self._sidebar.pin(conversation)
            self._screen.notify("Unpinned." if conversation.pinned else "Pinned: it comes first in the list.")

    def action_tag_open(self, typed: str = "") -> None:
        """Add the tags that are typed, and remove those with a minus before them. Without one, say which there are."""
        with reporting(self._screen):
            conversation = self._open_one()
            words = typed.replace(",", " ").split()
            tags = self._conversation.core.store.conversations.tag(
                conversation.id,
                add=[word for word in words if not word.startswith("-")],
                remove=[word[1:] for word in words if word.startswith("-")],
            )
            shown = " ".join(f"#{tag}" for tag in tags)
            found = f"{shown}\nA search for #{tags[0]} lists what has it." if tags else "None. Add one: /tag NAME"
            self._screen.notify(found, title="Tags of this conversation", markup=False)
            self._conversation.read_choices()
            self._view.rename(self._conversation.title)

    def values_tag_open(self) -> Iterable[str]:
        every = self._conversation.core.store.conversations.all()
        return sorted({tag for one in every for tag in one.choices.tags})

    def action_delete_open(self) -> None:
        with reporting(self._screen):
            self._sidebar.delete(self._open_one())

    def action_learn(self, how: str = "") -> None:
        """Teach the small models in the background; `how` "deep": their layers too.

        Raises `Misused` for any other word, and if learning is switched off.
        """
        if how not in ("", "deep"):
            raise Misused(f"/learn does not take {how!r}. Use /learn or /learn deep.")
        if not self._settings.learn:
            raise Misused("Learning is switched off: `learn = false` in the settings.")
        from app.tui.screens.chat.small_models import begin_learning  # What fetches is not needed at the start.

        begin_learning(self._screen, deep=bool(how))

    async def action_export_open(self, what: str = "") -> None:
        """Without a word, ask what to write. `what`: a format, a file, or both."""
        if not what:
            await self._screen.run_action("export")
            return
        from app.tui.screens.export import write_export  # What writes files is not needed at the start.

        format, file = _format_and_file(what)
        with reporting(self._screen):
            conversation = self._open_one()
            store = self._conversation.core.store
            writing = partial(write_export, self._screen, store, self._settings, conversation, format, file)
            begin(self._screen, writing, group="export")

    def values_export_open(self) -> Iterable[str]:
        return FORMATS

    # ---- answers -----------------------------------------------------------------------------------------------------

    def action_copy_last(self, what: str = "") -> None:
        messages = self._view.messages
        if what not in ("", ONLY_CODE):
            raise Misused(f"/copy takes no argument except `{ONLY_CODE}`.")
        (messages.copy_last_code if what else messages.action_copy_message)()

    def values_copy_last(self) -> Iterable[str]:
        return (ONLY_CODE,)

    async def action_compact(self, what: str = "") -> None:
        done = {"": self._view.sum_up, "show": self._view.fold_summed, "undo": self._view.take_summary_back}.get(what)
        if done is None:
            raise Misused(f"/compact takes no argument except {' and '.join(SUMMED)}.")
        if what == "show" and not self._conversation.summed.messages:
            raise Misused("Nothing is summarised here.")
        await done()

    def values_compact(self) -> Iterable[str]:
        return SUMMED

    def action_stop_answer(self) -> None:
        if self._conversation.live is None:
            raise Misused("No answer is running.")
        self._view.stop()

    async def action_usage(self) -> None:
        """Show the tokens of this conversation and of the last months, and what they have cost."""
        from app.usage import told

        usage, here = self._conversation.core.store.usage, self._conversation.id
        with reporting(self._screen):
            open_one = [] if here is None else await asyncio.to_thread(usage.by, "conversation", here)
            months = await asyncio.to_thread(usage.by, "month")
            named = [*(("This conversation", one) for one in open_one), *((one.key, one) for one in months[:MONTHS])]
            lines = [f"{name}: {', '.join(told(one))}" for name, one in named]
            said = "\n".join(lines) or "No answers have a token count yet."
            self._screen.notify(said, title="Tokens and costs", timeout=30, markup=False)

    # ---- the list, and how it looks ----------------------------------------------------------------------------------

    def action_search_for(self, words: str = "") -> None:
        self._sidebar.search(words)

    async def action_set_theme(self, name: str = "") -> None:
        app = self._screen.app
        if not name:
            await app.run_action("app.change_theme")
        elif name in app.available_themes:
            app.theme = name
        else:
            raise Misused(f"There is no theme {name!r}; /theme lists them.")

    def values_set_theme(self) -> Iterable[str]:
        return sorted(self._screen.app.available_themes)


def _format_and_file(what: str) -> tuple[Format, Path | None]:
    """The format, and the file or folder to write to. Raises `Misused`."""
    first, _, rest = what.partition(" ")
    named = next((format for format in FORMATS if format == first.lower()), None)
    file = expanded((rest if named else what).strip().strip("\"'")) if rest.strip() or not named else None
    promised = None if file is None else ENDINGS.get(file.suffix.lower())
    if named is None and promised is None:
        raise Misused("Write /export md FILE (or html, or json), or a FILE that ends in .md, .html or .json.")
    if file is not None and os.path.isfile(file):
        raise Misused(f"{file} exists already. Choose another name.")
    format = named or promised
    assert format is not None
    return format, file
