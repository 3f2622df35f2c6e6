"""The last rounds as figures: what was drafted, the expected gain and cost, and the real ones."""

from __future__ import annotations

from collections import deque

from textual.content import Content
from textual.widgets import Static

from app.events import RoundReport

SHOWN = 6
"""Rounds that are shown."""
QUIET = "$foreground 75%"
COLUMNS = (
    ("levels", 6),
    ("nodes", 7),
    ("expected", 10),
    ("came", 6),
    ("draft", 9),
    ("check", 9),
    ("line", 9),
    ("by: round", 12),
    ("level", 9),
    ("node", 9),
)


class Rounds(Static):
    """Hidden until the person asks for it; it collects the rounds all the time."""

    def __init__(self) -> None:
        super().__init__(markup=False)
        self._rounds: deque[RoundReport] = deque(maxlen=SHOWN)

    def on_mount(self) -> None:
        self.display = False

    def add(self, report: RoundReport) -> None:
        """A round is over; `draw` shows it."""
        self._rounds.append(report)

    def toggle(self) -> None:
        """Show the rounds, or hide them."""
        self.display = not self.display
        self.draw()

    def draw(self) -> None:
        """Draw the rounds, if they are shown."""
        if not self.display:
            return
        head = Content.styled("".join(name.rjust(width) for name, width in COLUMNS), QUIET)
        lines = ["".join(cell.rjust(width) for cell, (_, width) in zip(cells(one), COLUMNS)) for one in self._rounds]
        self.update(Content("\n").join([head, *(Content(line) for line in lines or ["No round yet."])]))


def cells(report: RoundReport) -> tuple[str, ...]:
    """One round, a text for each column; what is not known is a dash."""
    cost = report.cost
    return (
        str(report.levels) if report.levels else "–",
        str(report.nodes),
        "–" if report.expected is None else f"{report.expected:.2f}",
        str(report.gained),
        "ahead" if report.ahead else _milliseconds(report.draft_seconds),
        *(_milliseconds(seconds) for seconds in (report.server_seconds, report.rtt_seconds)),
        *(_milliseconds(seconds) for seconds in ((None,) * 3 if cost is None else (cost.round, cost.level, cost.node))),
    )


def _milliseconds(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    return f"{1000 * seconds:.{0 if seconds >= 0.01 else 2}f} ms"
