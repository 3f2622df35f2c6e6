"""The keys and the words of the screen, over the conversation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, VerticalScroll
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Static

from app.tui.widgets.prompt import Prompt

WORDS = (
    ("dimmed text", "drafted here, on its way to the verifier"),
    ("solid text", "verified by the target"),
    ("bar on the left", "drafted offline, not verified"),
    ("struck text", "drafted offline, and not kept by the target"),
    ("τ", "tokens gained per round trip"),
    ("rtt", "round trip time of the link"),
)
ORDER = (
    "prompt.send",
    "prompt.newline",
    "prompt.keep",
    "chat.verify",
    "chat.stop",
    "chat.copy",
    "chat.new",
    "chat.list",
    "chat.rounds",
    "prompt.page_up",
    "prompt.page_down",
    "app.theme",
    "app.help",
    "app.quit",
)
"""Ids of the bindings, most wanted first."""
RECALL = ("↑, ↓", "Earlier questions, while the prompt is empty")


class HelpScreen(ModalScreen[None]):
    """Lists the bindings of the app, the chat screen and the prompt as they are mapped now."""

    CSS_PATH = "help.tcss"
    BINDINGS = [Binding("escape,f1,question_mark,q", "dismiss", "Close", id="help.close")]

    def compose(self) -> ComposeResult:
        with VerticalScroll() as panel:
            panel.border_title = "Help"
            panel.border_subtitle = "esc close"
            yield from table("Keys", self._keys())
            yield from table("Words", WORDS)

    def _keys(self) -> list[tuple[str, str]]:
        below = self.app.screen_stack[-2]
        keys: dict[str, list[str]] = {}
        names: dict[str, str] = {}
        for node in (below.query_one(Prompt), below, self.app):
            bindings = node._bindings.copy()
            bindings.apply_keymap(self.app._keymap)
            for _, binding in bindings:
                if binding.id in ORDER:
                    keys.setdefault(binding.id, []).append(self.app.get_key_display(binding))
                    names[binding.id] = binding.description
        return [(", ".join(keys[name]), names[name]) for name in ORDER if name in keys] + [RECALL]


def table(title: str, rows: Iterable[tuple[str, str]]) -> Iterator[Widget]:
    """Two columns under a title."""
    yield Static(title, classes="title", markup=False)
    for left, right in rows:
        yield Horizontal(Static(left, classes="left", markup=False), Static(right, classes="right", markup=False))
