"""What the command palette offers: every action that has a key, the themes, and conversations by what was said."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import NamedTuple

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content
from textual.dom import DOMNode

from app.tui.bindings import rooms
from app.tui.screens.chat.conversation import OpenConversation
from app.tui.textual_private import bindings_of, keymap_of
from app.tui.widgets.conversation_list import one_line
from storage import StorageError

MOVES = (
    "app.commands",
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
"""Of no use from a list of commands."""
FOUND = 20
"""Conversations that a search in the palette shows at most."""


def holds(title: str, query: str) -> bool:
    """Each word of the query occurs in the title."""
    return all(word in title.lower() for word in query.lower().split())


class Command(NamedTuple):
    title: str
    help: str
    run: Callable[[], Awaitable[object]]


class ActionCommands(Provider):
    """Everything that has a key, with that key; in the part of the screen that it acts in."""

    def commands(self) -> Iterator[Command]:
        seen: set[str] = set(MOVES)
        # What concerns all of the screen comes first: the list is long, and that is what is looked for.
        for room in sorted(rooms(), key=lambda room: not room.outer):
            node = self._node(room.node)
            if node is None:
                continue
            bindings = bindings_of(node)
            bindings.apply_keymap(keymap_of(self.app))
            for _, binding in bindings:
                if binding.id and binding.id not in seen:
                    seen.add(binding.id)
                    run = partial(self.app.run_action, binding.action, node)
                    yield Command(binding.description, self.app.get_key_display(binding), run)

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
            # Letters here and there match any sentence, and would stand before the conversations that are meant.
            if holds(command.title, query) and (score := matcher.match(command.title)) > 0:
                yield Hit(score, matcher.highlight(command.title), command.run, help=command.help)


class ThemeCommands(Provider):
    """Each theme by its name."""

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for name in sorted(self.app.available_themes):
            title = f"Theme: {name}"
            if name != "textual-ansi" and (score := matcher.match(title)) > 0:
                yield Hit(score, matcher.highlight(title), partial(setattr, self.app, "theme", name))


class ConversationCommands(Provider):
    """Conversations whose title or messages hold the words."""

    async def search(self, query: str) -> Hits:
        screen = self.screen
        if not isinstance(screen, OpenConversation):
            return
        try:
            found = await asyncio.to_thread(screen.core.store.search.conversations, query, FOUND)
        except StorageError:
            return  # The list of conversations says what is wrong.
        for at, one in enumerate(found):
            title = f"Open: {one_line(one.conversation.title) or 'Untitled'}"
            snippet = one_line(one.snippet)
            go = partial(screen.open_conversation, one.conversation.id, one.message_id)
            yield Hit(0.5 - at / 1000, Content(title), go, title, snippet)
