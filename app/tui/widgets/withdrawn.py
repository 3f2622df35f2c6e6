"""What an answer had said before it was checked, and does not say any more: one line below it, which unfolds."""

from __future__ import annotations

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Static

from app.tui.turn import Turn
from app.tui.widgets.markdown_view import Prose


class Withdrawn(Vertical):
    """Shows the withdrawn end of a draft as the Markdown that it is, dimmed, with its own lines and code."""

    def __init__(self, turn: Turn) -> None:
        super().__init__(classes="withdrawn")
        self.turn = turn
        self._label = Static(markup=False, classes="label")
        self._prose = Prose(turn.withdrawn)

    def compose(self) -> ComposeResult:
        self._draw()
        yield self._label
        yield self._prose

    def toggle(self) -> None:
        """Unfolds it, or folds it again; the turn keeps that while it is out of view."""
        self.turn.unfolded = not self.turn.unfolded
        self._draw()

    def _draw(self) -> None:
        unfolded = self.turn.unfolded
        count = sum(any(map(str.isalnum, word)) for word in self._prose.plain.split())
        words = "1 drafted word was" if count == 1 else f"{count} drafted words were"
        self._label.update(f"{'▾' if unfolded else '▸'} {words} not kept when the answer was checked")
        self._prose.display = unfolded

    def on_click(self, event: events.Click) -> None:
        if not self.screen.selections:  # Else words were marked to be copied.
            event.stop()
            self.toggle()
