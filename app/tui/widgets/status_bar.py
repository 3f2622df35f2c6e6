"""The line at the bottom: the mode, the figures of the last reply, the context, and the reason of the mode."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.widgets import Static

from app.events import Mode, ModeChanged, Stats
from app.tui.open_conversation import UNREACHABLE

if TYPE_CHECKING:
    from app.drafting.prompt import Context

LABELS: dict[Mode, str] = {"edge": "edge", "hosted": "hosted", "offline": "offline", "warming": "warming up"}
QUIET = "$foreground 60%"
WIDE = 90
"""Columns from which the context meter shows both of its numbers."""
PADDING = 6
"""Columns between and around the parts of the bar."""
LEAST = (" verified", " tokens", "rtt  ms", "τ ")
"""Figures that a narrow bar leaves out; the first one goes first."""
FOR_SHELL = "→ shell"
"""Shown while a command is to be put into the person's shell."""
NEAR, FULL = 0.8, 0.95
"""Shares of the context from which the meter warns."""


class StatusBar(Horizontal):
    """Shows the mode as a coloured badge, the figures of the running or last reply, and the reason of the mode."""

    def compose(self) -> ComposeResult:
        yield Static(id="badge", markup=False)
        yield Static(id="figures", markup=False)
        yield Static(id="context", markup=False)
        yield Static(id="for-shell", markup=False)
        yield Static(id="why", markup=False)

    def __init__(self) -> None:
        super().__init__()
        self._meter: Context | None = None
        self._stats: Stats | None = None
        self._mode: Mode = "warming"
        self._metered = 0
        """Columns of the meter."""
        self._for_shell = False

    def on_resize(self) -> None:
        self.show_context(self._meter)

    def show_context(self, context: Context | None) -> None:
        """Show how full the context is; None: no conversation yet. A narrow bar shows the share only."""
        self._meter = context
        meter = "" if context is None else context_meter(context, short=self.app.size.width < WIDE)
        for line in self.query("#context").results(Static):  # There is none while the window closes.
            line.update(meter)
        self._metered = len(meter)
        self.show_stats(self._stats)

    def show_for_shell(self, command: str) -> None:
        """Show that the person's shell gets a command when they quit; empty: none."""
        self._for_shell = bool(command)
        line = self.query_one("#for-shell", Static)
        line.update(FOR_SHELL)
        line.display = self._for_shell
        self.show_stats(self._stats)

    def show_mode(self, mode: ModeChanged) -> None:
        for name in LABELS:
            self.set_class(name == mode.mode, f"-{name}")
        self._mode = mode.mode
        self.query_one("#badge", Static).update(LABELS[mode.mode])
        self.query_one("#why", Static).update(Content(mode.why))
        self.show_stats(self._stats)

    def show_stats(self, stats: Stats | None) -> None:
        """Show the figures of a reply; None: no reply yet. Without a server the round trip is dropped for good."""
        if stats is not None and self._mode in UNREACHABLE:
            stats = replace(stats, rtt_ms=None)
        self._stats = stats
        room = self.app.size.width - len(LABELS[self._mode]) - self._metered - PADDING
        room -= len(FOR_SHELL) + 2 if self._for_shell else 0
        for line in self.query("#figures").results(Static):
            line.update(figures(stats, room) if stats else "")


def figures(stats: Stats, room: int) -> Content:
    """The round trip, tau, speed and tokens that are known. `room`: columns; what does not fit is left out."""
    parts: list[tuple[str, str | Content, str]] = []
    if stats.rtt_ms is not None:
        rtt = Content.styled(f"{stats.rtt_ms:.0f}", "$warning" if stats.line == "degraded" else "")
        parts.append(("rtt ", rtt, " ms"))
    if stats.rounds:
        parts.append(("τ ", f"{stats.tau:.2f}", ""))
    if stats.tokens_per_second:
        parts.append(("", f"{stats.tokens_per_second:.0f}", " tok/s"))
    if stats.streamed is not None:  # From a server that verifies nothing.
        about = "" if stats.counted else "~"
        parts.append(("", f"{about}{stats.streamed}", " tokens"))
    if stats.streamed is None or stats.verified:
        parts.append(("", f"{stats.verified}", " verified"))
    if stats.drafted:
        parts.append(("", f"{stats.drafted}", " drafted"))
    spans = {name + unit: Content.assemble((name, QUIET), number, (unit, QUIET)) for name, number, unit in parts}
    for least in LEAST:
        if sum(len(span) + 2 for span in spans.values()) - 2 > room:
            spans.pop(least, None)
    return Content("  ").join(spans.values())


def context_meter(context: Context, *, short: bool) -> Content:
    """How much of the context is taken."""
    style = "$text-error" if context.share >= FULL else "$text-warning" if context.share >= NEAR else ""
    if short:
        return Content.assemble(("ctx ", QUIET), (f"{context.share:.0%}", style))
    return Content.assemble(
        ("ctx ", QUIET), (_thousands(context.used), style), (f"/{_thousands(context.limit)}", QUIET)
    )


def _thousands(count: int) -> str:
    return str(count) if count < 1000 else f"{count / 1000:.1f}k"
