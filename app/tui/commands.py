"""What the command palette offers: every action that has a key, with that key, and the themes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import NamedTuple

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.dom import DOMNode

from app.tui.keys import rooms

MOVES = ("prompt.page_up", "prompt.page_down", "prompt.newline", "app.commands")
"""Of no use from a list of commands."""


class Command(NamedTuple):
    title: str
    help: str
    run: Callable[[], Awaitable[object]]


class Actions(Provider):
    """Everything that has a key, with that key; in the part of the screen that it acts in."""

    def commands(self) -> Iterator[Command]:
        seen: set[str] = set(MOVES)
        for room in rooms():
            node = self._node(room.node)
            if node is None:
                continue
            bindings = node._bindings.copy()
            bindings.apply_keymap(self.app._keymap)
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
            if (score := matcher.match(command.title)) > 0:
                yield Hit(score, matcher.highlight(command.title), command.run, help=command.help)


class Themes(Provider):
    """Each theme by its name."""

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for name in sorted(self.app.available_themes):
            title = f"Theme: {name}"
            if name != "textual-ansi" and (score := matcher.match(title)) > 0:
                yield Hit(score, matcher.highlight(title), partial(setattr, self.app, "theme", name))
