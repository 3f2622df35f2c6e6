"""The figures of drafting and verifying, drawn: in the panel at the right, and round by round above the prompt."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from app.events import Mode, ModeChanged, RoundReport, StandIn
from app.sanitise import sanitise
from app.tui.metrics import DepthAcceptance, SessionMetrics, Totals, bytes_text
from app.tui.open_conversation import UNREACHABLE
from app.tui.stand_ins import state_of

WIDTH = 40
"""Columns of the panel, with padding and scroll bar."""
TEXT = 36
"""Columns of its text."""
DEPTHS = 10
"""Levels of the draft tree that are listed."""
BAR = 14
"""Columns of a bar."""
SPARKS = "▁▂▃▄▅▆▇█"
QUIET = "$foreground 75%"
HEAD = "bold $text-primary"


class Panel(VerticalScroll, can_focus=False):
    """Draws the metrics of the session while it is shown."""

    def __init__(self, metrics: SessionMetrics) -> None:
        super().__init__()
        self._metrics = metrics
        self._mode: ModeChanged | None = None
        self._sampling = ""
        self._stand_in: StandIn | None = None
        self._down_since: str | None = None
        """The time of day since when no server answers, if none does."""
        self._text = Static(markup=False)

    def compose(self) -> ComposeResult:
        yield self._text

    def show(self, shown: bool) -> None:
        self.display = shown
        self.draw()

    def show_mode(self, mode: ModeChanged) -> None:
        if mode.mode not in UNREACHABLE:
            self._down_since = None
        elif self._down_since is None:
            self._down_since = time.strftime("%H:%M")
        self._mode = mode
        self.draw()

    def show_sampling(self, chosen: str) -> None:
        """Show what was chosen for the open conversation; empty: nothing, so the settings count."""
        if chosen != self._sampling:
            self._sampling = chosen
            self.draw()

    def show_stand_in(self, stand_in: StandIn | None) -> None:
        if stand_in != self._stand_in:
            self._stand_in = stand_in
            self.draw()

    def draw(self) -> None:
        if self.display:
            shown = lines(self._metrics, self._mode, self._down_since, self._sampling, self._stand_in)
            self._text.update(Content("\n").join(shown))


def lines(
    figures: SessionMetrics,
    mode: ModeChanged | None,
    down_since: str | None = None,
    sampling: str = "",
    stand_in: StandIn | None = None,
) -> list[Content]:
    """The text of the panel. `down_since`: the time of day since when no server answers. `sampling`: what was chosen
    for the conversation. `stand_in`: the model on this device that answers while the server is away."""
    answer, session = figures.answer, figures.session
    shown = [Content.styled("Mode", HEAD)]
    if mode is not None:
        drafts = mode.checks or mode.mode in UNREACHABLE
        meaning = MEANING[mode.mode] if drafts else "the server writes the answer"
        shown += [Content(meaning), Content.styled(sanitise(mode.why), QUIET)]
    if stand_in is not None:
        state = Content.styled(sanitise(state_of(stand_in)), QUIET)
        shown += [Content(""), Content.styled("While the server is away", HEAD), Content(stand_in.name), state]
    if sampling:
        shown += [Content(""), Content.styled("Sampling, this conversation", HEAD), Content(sampling)]
    shown += [Content(""), Content.styled("Round trip", HEAD), *_line(figures, down_since), Content("")]
    shown.append(_columns("", "answer", "session", HEAD))
    hidden = _hidden(session, checks=mode is None or mode.checks)
    for name, one, all_of_them in zip(ROWS, _cells(answer), _cells(session)):
        if name not in hidden:
            shown.append(_columns(name, one, all_of_them))
    if hidden is VERIFYING:
        return shown
    shown += [Content(""), _columns("Accepted by depth", "answer", "session", HEAD)]
    shown += _depths(answer.acceptance, session.acceptance)
    return [*shown, Content(""), *(Content.styled(line, QUIET) for line in EXPLAINED)]


MEANING: dict[Mode, str] = {
    "edge": "edge: this device drafts",
    "hosted": "hosted: the server drafts",
    "offline": "offline: nobody checks",
    "warming": "connecting",
}
EXPLAINED = (
    "Round: a draft up, a verdict back.",
    "Passes saved: steps that the large",
    "model need not take.",
)


ROWS = (
    "tokens/s",
    "τ, tokens/round",
    "checked",
    "drafted only",
    "dimmed, retracted",
    "streamed",
    "rounds",
    "passes saved",
    "sent",
    "received",
)
VERIFYING = ("τ, tokens/round", "checked", "drafted only", "dimmed, retracted", "rounds", "passes saved")
"""Rows that mean nothing for a server that verifies nothing."""
STREAMED = ("streamed",)


def _hidden(session: Totals, *, checks: bool) -> tuple[str, ...]:
    """The rows that mean nothing for the answers of this session.

    `checks`: whether the current server checks drafts.
    """
    checked = bool(session.rounds or session.drafted)
    if session.streamed or not checks:
        return () if checked else VERIFYING
    return STREAMED


def _cells(totals: Totals) -> tuple[str, ...]:
    """A column of the table, with a dash for each unknown figure."""
    return (
        _known(totals.tokens_per_second, ".0f"),
        _known(totals.tau, ".2f"),
        str(totals.verified),
        str(totals.drafted),
        _known(totals.dimmed.share, ".1%"),
        str(totals.streamed),
        str(totals.rounds),
        _known(totals.passes_saved, "d"),
        bytes_text(totals.bytes_up),
        bytes_text(totals.bytes_down),
    )


def _known(number: float | None, form: str) -> str:
    return "–" if number is None else format(number, form)


def _columns(name: str, one: str, other: str, style: str = "") -> Content:
    return Content.assemble((name.ljust(TEXT - 17), style or QUIET), (one.rjust(8), style), (other.rjust(9), style))


def _line(figures: SessionMetrics, down_since: str | None) -> list[Content]:
    """The round trips as bars, and the speed of the line."""
    trips, stats = figures.round_trips, figures.stats
    if not trips:
        return [Content.styled("none yet", QUIET)]
    now, least, most = (f"{1000 * seconds:.0f}" for seconds in (trips[-1], min(trips), max(trips)))
    bars = Content.styled(sparkline(trips), "$text-accent")
    if down_since is not None:
        return [bars, Content.styled(f"down since {down_since}; {least} to {most} ms before", QUIET)]
    shown = [bars, Content.assemble((now, ""), (f" ms now, {least} to {most} ms", QUIET))]
    if stats.line is not None:
        rates = [
            f"{arrow} {bytes_text(rate)}/s"
            for arrow, rate in (("↑", stats.up_bytes_per_second), ("↓", stats.down_bytes_per_second))
            if rate
        ]
        shown.append(Content.styled("  ".join([stats.line, *rates]), QUIET))
    return shown


def _depths(answer: DepthAcceptance, session: DepthAcceptance) -> list[Content]:
    ours, theirs = answer.shares[:DEPTHS], session.shares[:DEPTHS]
    if not theirs:
        return [Content.styled("no draft yet", QUIET)]
    shown = []
    for at, share in enumerate(theirs):
        mine = ours[at] if at < len(ours) else None
        drawn = share if mine is None else mine
        percents = ("–" if mine is None else f"{mine:.0%}", f"{share:.0%}")
        shown.append(
            Content.assemble(
                (f"{at + 1:3} ", QUIET),
                (bar(drawn).ljust(BAR + 1), "$text-success"),
                (percents[0].rjust(8), ""),
                (percents[1].rjust(9), ""),
            )
        )
    return shown


# ---- the last rounds -------------------------------------------------------------------------------------------------

SHOWN = 6
"""Rounds that are shown."""
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
    """The last rounds: what each one drafted, its expected gain and cost, and the actual ones.

    Hidden until the person asks for it; it collects the rounds all the time.
    """

    def __init__(self) -> None:
        super().__init__(markup=False)
        self._rounds: deque[RoundReport] = deque(maxlen=SHOWN)

    def on_mount(self) -> None:
        self.display = False

    def add(self, report: RoundReport) -> None:
        """A round is over; `draw` shows it."""
        self._rounds.append(report)

    def toggle(self) -> None:
        self.display = not self.display
        self.draw()

    def draw(self) -> None:
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


def sparkline(values: Sequence[float]) -> str:
    """The last values as bars, scaled between the least and the greatest."""
    values = list(values)[-TEXT:]
    if not values:
        return ""
    least, span = min(values), max(values) - min(values)
    return "".join(SPARKS[round((value - least) / span * (len(SPARKS) - 1)) if span else 0] for value in values)


def bar(share: float) -> str:
    """A bar of at most `BAR` columns, exact to an eighth of a column."""
    eighths = round(share * BAR * 8)
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()
