"""A model's thoughts before its answer: one line above the answer that unfolds to the dimmed text."""

from __future__ import annotations

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from app.tui.turn import Turn

MOST_SHOWN = 20_000
"""Characters that are drawn: the end of the thoughts. An export has all of them."""


class Thoughts(Vertical):
    """The thoughts of `turn`, folded, and shown as plain text."""

    def __init__(self, turn: Turn) -> None:
        super().__init__(classes="thoughts")
        self.turn = turn
        self._label = Static(markup=False, classes="label")
        self._text = Static(markup=False, classes="text")
        self._drawn = -1

    def compose(self) -> ComposeResult:
        self.draw()
        yield self._label
        yield self._text

    def toggle(self) -> None:
        """Unfolds or folds the text; the turn remembers which, for when the answer is mounted again."""
        self.turn.thoughts_unfolded = not self.turn.thoughts_unfolded
        self.draw()

    def on_click(self, event: events.Click) -> None:
        if not self.screen.selections:  # Else words were marked to be copied.
            event.stop()
            self.toggle()

    def draw(self) -> None:
        """Draws what has come, and for how long the model has been thinking."""
        turn, unfolded = self.turn, self.turn.thoughts_unfolded
        seconds = f" for {turn.thought_seconds:.0f} s" if turn.thought_seconds >= 1 else ""
        thinking = turn.running and not turn.text
        self._label.update(f"{'▾' if unfolded else '▸'} {'Thinking' if thinking else 'Thought'}{seconds}")
        self._text.display = unfolded
        if unfolded and self._drawn != len(turn.thoughts):
            self._drawn = len(turn.thoughts)
            cut = "… " if self._drawn > MOST_SHOWN else ""
            self._text.update(Content(cut + turn.thoughts[-MOST_SHOWN:].strip()))
