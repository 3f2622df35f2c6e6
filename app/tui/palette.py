"""The palette: every action that has a key, the prompt's commands, the themes, and the conversations by their text."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import NamedTuple

from textual.binding import Binding
from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content
from textual.dom import DOMNode

from app.events import unchecked
from app.sanitise import one_line
from app.tui.bindings import rooms
from app.tui.keymap import declared, first_key
from app.tui.screens.chat.screen import ChatScreen
from app.tui.slash import TypedCommand
from app.tui.widgets.conversation_list import marked_line
from storage import StorageError

MOVES = (
    "app.commands",
    "list.open",
    "message.next_block",
    "message.previous_block",
    "models.down",
    "models.up",
    "prompt.close",
    "prompt.complete",
    "prompt.down",
    "prompt.newline",
    "prompt.page_down",
    "prompt.page_up",
    "prompt.up",
    "rename.drop",
    "rename.keep",
    "search.clear",
    "search.down",
    "search.open",
    "search.up",
)
"""Actions that make no sense in a list of commands."""
FIRST = (
    "chat.export",
    "chat.list",
    "chat.search",
    "chat.verify",
    "chat.stop",
    "chat.queue",
    "message.previous",
    "message.next",
)
"""Actions listed before the others of their part, because people look for them in the palette."""
FOUND = 20
"""Maximum number of conversations that the palette finds."""


def holds(title: str, query: str) -> bool:
    return all(word in title.lower() for word in query.lower().split())


def _rank(binding: Binding) -> int:
    return FIRST.index(binding.id) if binding.id in FIRST else len(FIRST)


class Command(NamedTuple):
    title: str
    help: str
    run: Callable[[], Awaitable[object]]


class ActionCommands(Provider):
    """Every action that has a key, with its key, and every command of the prompt, with its word.

    An action runs on the part of the screen that it belongs to.
    """

    def commands(self) -> Iterator[Command]:
        chat = self.screen if isinstance(self.screen, ChatScreen) else None
        typed = [] if chat is None else chat.commands.offered()
        words = {command.key: f"/{command.word}" for command in typed if command.key}
        actions: set[str] = set()
        seen: set[str | None] = set(MOVES)
        # Actions of the whole screen come first: the list is long, and people look for these.
        for room in sorted(rooms(), key=lambda room: not room.outer):
            node = self._node(room.node)
            if node is None:
                continue
            for binding in sorted(declared(type(node)), key=_rank):
                if binding.id not in seen:
                    seen.add(binding.id)
                    actions.add(binding.action)
                    run = partial(self.app.run_action, binding.action, node)
                    key = self.app.get_key_display(Binding(first_key(self.app, binding), ""))
                    ways = (key, words.get(binding.id or "", ""))
                    yield Command(binding.description, " · ".join(filter(None, ways)), run)
        for command in typed:
            if chat is not None and not command.key and command.action not in actions:
                yield Command(command.help, f"/{command.word}", partial(chat.commands.run, TypedCommand(command, "")))

    def _node(self, kind: type[DOMNode]) -> DOMNode | None:
        for node in (self.app, self.screen):
            if isinstance(node, kind):
                return node
        found = self.screen.query(kind.__name__)
        return found.first() if found else None

    async def discover(self) -> Hits:
        for command in self.commands():
            yield DiscoveryHit(command.title, command.run, help=command.help)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for command in self.commands():
            # A fuzzy match alone would match most sentences, and rank them before the intended conversations.
            if holds(command.title, query) and (score := matcher.match(command.title)) > 0:
                yield Hit(score, matcher.highlight(command.title), command.run, help=command.help)


class ThemeCommands(Provider):
    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for name in sorted(self.app.available_themes):
            title = f"Theme: {name}"
            if name != "textual-ansi" and (score := matcher.match(title)) > 0:
                yield Hit(score, matcher.highlight(title), partial(setattr, self.app, "theme", name))


class ConversationCommands(Provider):
    async def search(self, query: str) -> Hits:
        screen = self.screen
        if not isinstance(screen, ChatScreen):
            return
        try:
            found = await asyncio.to_thread(screen.conversation.core.store.search.conversations, query, FOUND)
        except StorageError:
            return  # The list of conversations reports it.
        for at, one in enumerate(found):
            title = f"Open: {one_line(one.conversation.title) or 'Untitled'}"
            shown = Content("Open: ") + (marked_line(one.conversation.title, one.title_marks) or Content("Untitled"))
            go = partial(screen.open_conversation, one.conversation.id, one.message_id)
            said = " · ".join(filter(None, (unchecked(one.stats), one.snippet)))
            yield Hit(0.5 - at / 1000, shown, go, title, one_line(said))
