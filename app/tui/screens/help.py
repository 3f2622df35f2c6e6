"""The help: the keys, first those of the part that has the focus, and the words on the screen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, VerticalScroll
from textual.widget import Widget
from textual.widgets import Static

from app.tui.keymap import Room, actions_in, hint, remapped
from app.tui.screens.dialog import Dialog, titled
from app.tui.slash import SlashCommand

WORDS = (
    ("dimmed text", "drafted here, on its way to be checked"),
    ("solid text", "checked by the model"),
    ("bar on the left", "drafted offline, not checked"),
    ("danger, warning", "harm that a command would do, perhaps for good"),
    ("not asked for", "the question does not ask for that"),
    ("struck text", "drafted offline, rejected by the model"),
)

TWO_COLUMNS = 64
"""Columns of the window from which the help has two columns."""


class HelpScreen(Dialog[None]):
    """Lists the keys as they are mapped now, and the prompt's commands.

    `rooms`: whose keys, in the order in which they are listed. `commands`: those that can be done now.
    """

    BINDINGS = [Binding("escape,f1,question_mark,q", "dismiss", "Close", id="help.close")]

    def __init__(self, rooms: Sequence[Room], commands: Sequence[SlashCommand] = ()) -> None:
        super().__init__()
        self._rooms = rooms
        self._commands = [(command.usage, command.help) for command in commands]

    def compose(self) -> ComposeResult:
        with titled(VerticalScroll(), "Help", hint(self, ("help.close", "close"))):
            for room in self._rooms:
                here = actions_in(room, remapped(self.app))
                rows = [(", ".join(map(self._shown, action.keys)), action.description) for action in here]
                yield from table(room.title, rows)
                if room is self._rooms[0] and self._commands:
                    yield from table("Commands, typed into the prompt", self._commands)
            yield from table("Words", WORDS)

    def on_mount(self) -> None:
        self._lay_out()

    def on_resize(self) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        """In a narrow window, put what a key does below the key."""
        self.set_class(self.app.size.width < TWO_COLUMNS, "-slim")

    def _shown(self, key: str) -> str:
        return self.app.get_key_display(Binding(key, ""))


def table(title: str, rows: Iterable[tuple[str, str]]) -> Iterator[Widget]:
    """Rows of two columns under a title."""
    yield Static(title, classes="title", markup=False)
    for left, right in rows:
        yield Horizontal(Static(left, classes="left", markup=False), Static(right, classes="right", markup=False))
