"""The keys and the words of the screen, over the conversation: first the keys of the part that has the focus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, VerticalScroll
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Static

from app.tui.keys import Room, actions, rooms

WORDS = (
    ("dimmed text", "drafted here, on its way to the verifier"),
    ("solid text", "verified by the target"),
    ("bar on the left", "drafted offline, not verified"),
    ("struck text", "drafted offline, and not kept by the target"),
    ("τ", "tokens gained per round trip"),
    ("rtt", "round trip time of the link"),
)


class HelpScreen(ModalScreen[None]):
    """Lists the keys as they are mapped now. `focused`: what has the focus below."""

    CSS_PATH = "help.tcss"
    BINDINGS = [Binding("escape,f1,question_mark,q", "dismiss", "Close", id="help.close")]

    def __init__(self, focused: Widget | None) -> None:
        super().__init__()
        self._focused = focused

    def compose(self) -> ComposeResult:
        found = actions(self.app._keymap)
        with VerticalScroll() as panel:
            panel.border_title = "Help"
            panel.border_subtitle = "esc close"
            for room in self._rooms():
                here = [action for action in found if action.room == room.title]
                rows = [(", ".join(map(self._shown, action.keys)), action.description) for action in here]
                yield from table(room.title, rows)
            yield from table("Words", WORDS)

    def _rooms(self) -> list[Room]:
        """Those that hear a key now, the nearest first, then what else is on the screen."""
        nodes = [] if self._focused is None else self._focused.ancestors_with_self
        near = [room for room in rooms() if any(isinstance(node, room.node) for node in nodes)]
        return near + [room for room in rooms() if room not in near and not room.over]

    def _shown(self, key: str) -> str:
        return self.app.get_key_display(Binding(key, ""))


def table(title: str, rows: Iterable[tuple[str, str]]) -> Iterator[Widget]:
    """Two columns under a title."""
    yield Static(title, classes="title", markup=False)
    for left, right in rows:
        yield Horizontal(Static(left, classes="left", markup=False), Static(right, classes="right", markup=False))
