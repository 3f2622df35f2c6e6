"""Names of keys and actions: which key an action has now, and its name in hints.

A key acts in a room: everywhere, in the conversation, or in the part that has the focus. `bindings.py` lists the rooms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from textual.app import App
from textual.binding import Binding, BindingsMap
from textual.dom import DOMNode

SHORT = {"escape": "esc", "up": "↑", "down": "↓", "slash": "/"}
"""Names of these keys in hints. Other keys have the same name as in the settings."""


def remapped(app: App[Any]) -> Mapping[str, str]:
    """The keys that the person has given to actions, by the id of the binding."""
    keys: Mapping[str, str] = getattr(app, "remapped", {})
    return keys


@cache
def declared(kind: type[DOMNode]) -> tuple[Binding, ...]:
    """The bindings with an id that a class declares, one for each key: its own first, then those of its bases."""
    bindings = (binding for base in kind.__mro__ for _, binding in BindingsMap(base.__dict__.get("BINDINGS", ())))
    return tuple(binding for binding in bindings if binding.id)


class Room(NamedTuple):
    title: str
    node: type[DOMNode]
    outer: bool
    """Whether its keys act regardless of the focus."""
    over: bool = False
    """Whether it covers the conversation, so that only its own keys and those of the application act meanwhile."""
    keys: tuple[Binding, ...] = ()
    """Keys of the room that `node` does not list itself."""

    def bindings(self) -> Iterator[Binding]:
        """Every binding with an id, one entry per key."""
        yield from (binding for _, binding in BindingsMap(self.keys))
        yield from declared(self.node)


class Action(NamedTuple):
    """Something that a key does. The id is the name by which people remap it."""

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
    places = (binding for one in node.ancestors_with_self for binding in declared(type(one)) if binding.id == name)
    binding = next(places, None)
    if binding is None:
        return ""
    key = first_key(node.app, binding)
    *modifiers, last = key.split("+") if len(key) > 1 else [key]
    return "+".join([*modifiers, SHORT.get(last, last)])


def first_key(app: App[Any], binding: Binding) -> str:
    """The first key of a binding, as it is mapped now."""
    return remapped(app).get(binding.id or "", binding.key).split(",")[0].strip()


def hint(node: DOMNode, *actions: tuple[str, str], between: str = "   ") -> str:
    """A line that says what some keys do; `actions`: pairs of an action's id and a word or two for it."""
    return between.join(f"{key} {words}" for name, words in actions if (key := key_of(node, name)))
