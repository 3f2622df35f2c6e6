"""All keys of the screen, in one list, and the check of remapped keys.

Two rooms next to each other may use one key for two things. A part of the screen must not accidentally take over a key
of the whole screen. This module imports every screen, so only the application may import it, no widget.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from textual.app import App
from textual.binding import Binding
from textual.dom import DOMNode
from textual.keys import KEY_DISPLAY_ALIASES, Keys

from app.config import ConfigError
from app.tui.keymap import Action, Room, actions_in

EVERYWHERE = (
    Binding("ctrl+q", "quit", "Quit", id="app.quit", priority=True),
    Binding("f1", "show_help", "Help", id="app.help", priority=True),
    Binding("f2", "toggle_theme", "Light or dark", id="app.theme", priority=True),
    Binding("f4", "show_remotes", "Servers: add, test, switch", id="app.remotes", priority=True),
    Binding("f5", "pick", "Models: choose the one that answers", id="app.models", priority=True),
    Binding("f12", "look_nearby", "Look for model servers on this device", id="app.look", priority=True),
    Binding("f8", "show_log", "Program log", id="app.log", priority=True),
    Binding("ctrl+p", "command_palette", "Commands", id="app.commands", priority=True),
    Binding("ctrl+l", "redraw", "Redraw the screen", id="app.redraw", priority=True),
    Binding("ctrl+z", "suspend_process", "Suspend; `fg` in the shell resumes", id="app.suspend", priority=True),
)
"""The application's own keys."""
MODIFIERS = ("ctrl", "shift", "alt", "super", "hyper", "meta")
NAMED = {key.value for key in Keys} | set(KEY_DISPLAY_ALIASES) | {f"f{number}" for number in range(1, 25)}
SOURCE = "[keys] in the settings"


def rooms() -> tuple[Room, ...]:
    """All rooms, from the part with the focus outwards.

    Their screens are imported here, because the first frame needs few.
    """
    from app.tui.screens.chat.message_actions import MessageActions
    from app.tui.screens.chat.screen import ChatScreen
    from app.tui.screens.code_block import CodeBlockScreen
    from app.tui.screens.confirm import Confirm
    from app.tui.screens.export import ExportScreen
    from app.tui.screens.help import HelpScreen
    from app.tui.screens.local import LocalScreen
    from app.tui.screens.log import LogScreen
    from app.tui.screens.models import ModelsScreen
    from app.tui.screens.nearby import NearbyScreen
    from app.tui.screens.page_sources import SourceScreen
    from app.tui.screens.queue import QueueScreen, Rewording
    from app.tui.screens.recall import RecallScreen
    from app.tui.screens.remote_form import RemoteForm
    from app.tui.screens.remotes import RemotesScreen
    from app.tui.screens.sampling_form import SamplingForm
    from app.tui.screens.system import SystemForm, SystemScreen
    from app.tui.screens.tool_call import ToolCallScreen
    from app.tui.screens.tools import ToolsScreen
    from app.tui.widgets.conversation_list import ConversationList
    from app.tui.widgets.prompt import Prompt
    from app.tui.widgets.sidebar import SearchBox, TitleBox

    return (
        Room("Prompt", Prompt, False),
        Room("Messages", MessageActions, False),
        Room("A code block", CodeBlockScreen, False, over=True),
        Room("Source of an answer", SourceScreen, False, over=True),
        Room("List of conversations", ConversationList, False),
        Room("Search", SearchBox, False),
        Room("New name", TitleBox, False),
        Room("Earlier questions", RecallScreen, False, over=True),
        Room("Queue", QueueScreen, False, over=True),
        Room("A queued prompt", Rewording, False, over=True),
        Room("Models", ModelsScreen, False, over=True),
        Room("Models on this device", LocalScreen, False, over=True),
        Room("Servers", RemotesScreen, False, over=True),
        Room("Server form", RemoteForm, False, over=True),
        Room("System prompts", SystemScreen, False, over=True),
        Room("Text of a system prompt", SystemForm, False, over=True),
        Room("Tools", ToolsScreen, False, over=True),
        Room("A tool call", ToolCallScreen, False, over=True),
        Room("Sampling", SamplingForm, False, over=True),
        Room("Servers on this device", NearbyScreen, False, over=True),
        Room("Question", Confirm, False, over=True),
        Room("Log", LogScreen, False, over=True),
        Room("Export", ExportScreen, False, over=True),
        Room("Help", HelpScreen, False, over=True),
        Room("Conversation", ChatScreen, True),
        Room("Everywhere", App, True, keys=EVERYWHERE),
    )


def rooms_near(node: DOMNode) -> list[Room]:
    """The rooms whose keys act now, the nearest first, then the others on the screen. `node`: what has the focus."""
    nodes = node.ancestors_with_self
    near = [room for room in rooms() if any(isinstance(node, room.node) for node in nodes)]
    if any(room.over for room in near):
        return near  # The conversation lies below.
    return near + [room for room in rooms() if room not in near and not room.over]


def actions(keys: Mapping[str, str]) -> list[Action]:
    """All actions, with the keys they have now; `keys`: the remapped ones, by id."""
    found: dict[str, Action] = {}
    for room in rooms():
        for action in actions_in(room, keys):
            found.setdefault(action.id, action)  # An action in two rooms has one id and the same keys.
    return list(found.values())


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
        raise ConfigError(f"{SOURCE}: {name} = {key!r} is not a key; write keys as 'f5', 'ctrl+n' or 'alt+enter'.")
    types = not modifiers and (len(last) == 1 or last in ("space", "enter", "backspace"))
    if types and binding.priority and name != "prompt.send":
        raise ConfigError(f"{SOURCE}: with {name} = {key!r}, {key!r} could not be typed; add ctrl+ or alt+.")


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
