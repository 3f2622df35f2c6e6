"""Every key of the screen: where it acts, the name by which it is remapped, and the check of what a person remapped.

A key acts in a room: everywhere, in the conversation's screen, or in the part that has the focus. Two rooms beside each
other may use one key for two things; a key of the whole screen may not be taken away from it in a part by accident.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from textual.binding import Binding, BindingsMap
from textual.dom import DOMNode
from textual.keys import KEY_DISPLAY_ALIASES, Keys

from app.config import ConfigError
from app.tui.textual_private import bindings_of, keymap_of

MODIFIERS = ("ctrl", "shift", "alt", "super", "hyper", "meta")
NAMED = {key.value for key in Keys} | set(KEY_DISPLAY_ALIASES) | {f"f{number}" for number in range(1, 25)}
SHORT = {"escape": "esc", "up": "↑", "down": "↓"}
"""How a hint calls these keys; it calls the others as the settings do."""
SOURCE = "[keys] in the settings"


class Room(NamedTuple):
    """A part of the screen that has keys of its own."""

    title: str
    node: type[DOMNode]
    outer: bool
    """Its keys act whatever has the focus."""
    over: bool = False
    """It lies over the conversation: nothing else hears a key meanwhile, but what acts everywhere."""

    def bindings(self) -> Iterator[Binding]:
        """Those that have a name, its own first, in the order in which they are written; one entry for each key."""
        for base in self.node.__mro__:
            for _, binding in BindingsMap(base.__dict__.get("BINDINGS", ())):
                if binding.id:
                    yield binding


class Action(NamedTuple):
    """What a key does, by the name under which it can be given another."""

    id: str
    keys: tuple[str, ...]
    description: str
    room: str


def rooms() -> tuple[Room, ...]:
    """From the part with the focus outwards."""
    from app.tui.app import OutriderApp
    from app.tui.screens.chat.screen import ChatScreen
    from app.tui.screens.export import ExportScreen
    from app.tui.screens.help import HelpScreen
    from app.tui.screens.log import LogScreen
    from app.tui.screens.queue import QueueScreen, Rewording
    from app.tui.screens.remote_form import RemoteForm
    from app.tui.screens.remotes import Confirm, RemotesScreen
    from app.tui.widgets.conversation_list import ConversationList
    from app.tui.widgets.prompt import Prompt
    from app.tui.widgets.sidebar import Rename, Search
    from app.tui.widgets.transcript import Transcript

    return (
        Room("Prompt", Prompt, False),
        Room("Messages", Transcript, False),
        Room("List of conversations", ConversationList, False),
        Room("Search", Search, False),
        Room("New name", Rename, False),
        Room("Queue", QueueScreen, False, over=True),
        Room("A queued prompt", Rewording, False, over=True),
        Room("Remotes", RemotesScreen, False, over=True),
        Room("Form of a remote", RemoteForm, False, over=True),
        Room("Question", Confirm, False, over=True),
        Room("Log", LogScreen, False, over=True),
        Room("Export", ExportScreen, False, over=True),
        Room("Help", HelpScreen, False, over=True),
        Room("Conversation", ChatScreen, True),
        Room("Everywhere", OutriderApp, True),
    )


def actions(keys: Mapping[str, str]) -> list[Action]:
    """All of them with the keys they have now; `keys`: the remapped ones, by id."""
    found: dict[str, Action] = {}
    for room in rooms():
        for action in actions_in(room, keys):
            found.setdefault(action.id, action)  # What can be done in two rooms has one name, and the same keys.
    return list(found.values())


def actions_in(room: Room, keys: Mapping[str, str]) -> list[Action]:
    """Those of one room."""
    found: dict[str, Action] = {}
    for binding in room.bindings():
        name = binding.id or ""
        own = found[name].keys if name in found else ()
        mapped = tuple(key.strip() for key in keys[name].split(",")) if name in keys else (*own, binding.key)
        found[name] = Action(name, mapped, binding.description, room.title)
    return list(found.values())


def key_of(node: DOMNode, name: str) -> str:
    """The first key of an action as it is mapped now, for a hint; empty where `node` and what it is in lack it."""
    places = (binding for one in node.ancestors_with_self for _, binding in bindings_of(one) if binding.id == name)
    binding = next(places, None)
    if binding is None:
        return ""
    key = keymap_of(node.app).get(name, binding.key).split(",")[0].strip()
    *modifiers, last = key.split("+") if len(key) > 1 else [key]
    return "+".join([*modifiers, SHORT.get(last, last)])


def hint(node: DOMNode, *actions: tuple[str, str], between: str = "   ") -> str:
    """What some keys do: each action by its name, with a word or two for it."""
    return between.join(f"{key} {words}" for name, words in actions if (key := key_of(node, name)))


def checked(keys: Mapping[str, str | Mapping[str, str]]) -> dict[str, str]:
    """The remapped keys by id, from a table as TOML reads it: `chat.new = "f5"` without quotes is a table in a table.

    Raises `ConfigError` for a name or a key that does not exist, and for a key that would mean two things.
    """
    flat: dict[str, str] = {}
    for name, given in keys.items():
        flat |= {name: given} if isinstance(given, str) else {f"{name}.{rest}": key for rest, key in given.items()}
    if flat:
        _check(flat)
    return flat


def _check(keys: Mapping[str, str]) -> None:
    known = {binding.id or "": (room, binding) for room in rooms() for binding in room.bindings()}
    for name, given in keys.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise ConfigError(f"{SOURCE}: there is no action {name!r}; {hint}`outrider keys` lists them.")
        room, binding = known[name]
        for key in given.split(","):
            _check_key(name, key.strip(), room, binding)
    _check_clashes(keys)


def _check_key(name: str, key: str, room: Room, binding: Binding) -> None:
    *modifiers, last = key.split("+") if len(key) > 1 else [key]
    if not last or any(modifier not in MODIFIERS for modifier in modifiers) or not (len(last) == 1 or last in NAMED):
        raise ConfigError(f"{SOURCE}: {name} = {key!r} is no key; write them like 'f5', 'ctrl+n' or 'alt+enter'.")
    types = not modifiers and (len(last) == 1 or last in ("space", "enter", "backspace"))
    if types and binding.priority and name != "prompt.send":
        raise ConfigError(f"{SOURCE}: {name} = {key!r} could not be typed any more; add ctrl+ or alt+.")


def _check_clashes(keys: Mapping[str, str]) -> None:
    outer = {room.title for room in rooms() if room.outer}
    over = {room.title for room in rooms() if room.over}
    taken: dict[str, list[Action]] = {}
    for action in (action for room in rooms() for action in actions_in(room, keys)):
        for key in action.keys:
            for other in (other for other in taken.setdefault(key, []) if other.id != action.id):
                meet = action.room == other.room or {action.room, other.room} & outer
                if {action.room, other.room} & over and "Conversation" in (action.room, other.room):
                    continue  # The conversation's own keys rest below.
                if meet and (action.id in keys or other.id in keys):
                    mine, theirs = (action, other) if action.id in keys else (other, action)
                    raise ConfigError(
                        f"{SOURCE}: {mine.id} = {key!r} is the key of {theirs.id} ({theirs.description}) already; "
                        f"choose another, or give {theirs.id} another one too."
                    )
            taken[key].append(action)
