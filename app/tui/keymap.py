"""Names of keys and actions: which key an action has now, and how a hint on the screen calls it.

A key acts in a room: everywhere, in the conversation, or in the part that has the focus. `bindings.py` lists the rooms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from textual.binding import Binding, BindingsMap
from textual.dom import DOMNode

from app.tui.textual_private import bindings_of, keymap_of

SHORT = {"escape": "esc", "up": "↑", "down": "↓", "slash": "/"}
"""Names of these keys in hints. Other keys are called as in the settings."""


class Room(NamedTuple):
    """A part of the screen that has keys of its own."""

    title: str
    node: type[DOMNode]
    outer: bool
    """Its keys act whatever has the focus."""
    over: bool = False
    """It lies over the conversation. Only its own keys and those of the application act meanwhile."""
    keys: tuple[Binding, ...] = ()
    """Keys of the room that `node` does not list itself."""

    def bindings(self) -> Iterator[Binding]:
        """Every binding with an id, one entry per key: the room's own first, then those of the base classes."""
        for declared in (self.keys, *(base.__dict__.get("BINDINGS", ()) for base in self.node.__mro__)):
            for _, binding in BindingsMap(declared):
                if binding.id:
                    yield binding


class Action(NamedTuple):
    """Something that a key does. The id is the name by which people give it another key."""

    id: str
    keys: tuple[str, ...]
    description: str
    room: str


def actions_in(room: Room, keys: Mapping[str, str]) -> list[Action]:
    """The actions of one room, with the keys they have now; `keys`: the remapped ones, by id."""
    found: dict[str, Action] = {}
    for binding in room.bindings():
        name = binding.id or ""
        own = found[name].keys if name in found else ()
        mapped = tuple(key.strip() for key in keys[name].split(",")) if name in keys else (*own, binding.key)
        found[name] = Action(name, mapped, binding.description, room.title)
    return list(found.values())


def key_of(node: DOMNode, name: str) -> str:
    """The first key of an action, as it is mapped now; empty if neither `node` nor a node around it has that action."""
    places = (binding for one in node.ancestors_with_self for _, binding in bindings_of(one) if binding.id == name)
    binding = next(places, None)
    if binding is None:
        return ""
    key = keymap_of(node.app).get(name, binding.key).split(",")[0].strip()
    *modifiers, last = key.split("+") if len(key) > 1 else [key]
    return "+".join([*modifiers, SHORT.get(last, last)])


def hint(node: DOMNode, *actions: tuple[str, str], between: str = "   ") -> str:
    """A line that says what some keys do; `actions`: pairs of an action's id and a word or two for it."""
    return between.join(f"{key} {words}" for name, words in actions if (key := key_of(node, name)))
