"""The figures of drafting and verifying: of the last answer, and of all answers since the start."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from app.events import Done, Event, RoundEnded, RoundReport, Started, Stats
from app.reply.dimmed_text import DimmedText

SHOWN_ROUND_TRIPS = 60
"""Round trips that are kept, the last ones."""


@dataclass
class DepthAcceptance:
    """For each depth: how many drafts reached it, and how many were right up to there."""

    offered: list[int] = field(default_factory=list)
    accepted: list[int] = field(default_factory=list)

    def add(self, report: RoundReport) -> None:
        """Count a round, unless its draft was made elsewhere, missing, or a whole answer sent to be verified."""
        if not report.nodes or (not report.levels and report.expected is None):
            return
        right = report.gained - 1  # The last token is the target's own.
        depth = max(report.levels, right, 1)
        while len(self.offered) < depth:
            self.offered.append(0)
            self.accepted.append(0)
        for at in range(depth):
            self.offered[at] += 1
            self.accepted[at] += at < right

    @property
    def shares(self) -> list[float]:
        """The share that was right, by depth; the first level is first."""
        return [accepted / offered for accepted, offered in zip(self.accepted, self.offered)]


@dataclass
class Totals:
    """Sums over answers, and the figures that follow from them."""

    answers: int = 0
    rounds: int = 0
    verified: int = 0
    drafted: int = 0
    streamed: int = 0
    """Tokens from servers that verify nothing."""
    seconds: float = 0.0
    bytes_up: int = 0
    bytes_down: int = 0
    acceptance: DepthAcceptance = field(default_factory=DepthAcceptance)
    dimmed: DimmedText = field(default_factory=DimmedText)

    def add(self, stats: Stats, before: Stats) -> None:
        """Add the growth of an answer's own totals since `before`."""
        self.rounds += stats.rounds - before.rounds
        self.verified += stats.verified - before.verified
        self.drafted += stats.drafted - before.drafted
        self.streamed += (stats.streamed or 0) - (before.streamed or 0)
        self.seconds += stats.seconds - before.seconds
        self.bytes_up += stats.bytes_up - before.bytes_up
        self.bytes_down += stats.bytes_down - before.bytes_down

    @property
    def tau(self) -> float | None:
        return self.verified / self.rounds if self.rounds else None

    @property
    def tokens_per_second(self) -> float | None:
        return (self.verified + self.drafted + self.streamed) / self.seconds if self.seconds else None

    @property
    def passes_saved(self) -> int | None:
        """Additional passes of the target that plain streaming, with one per token, would have needed."""
        return self.verified - self.rounds if self.rounds else None


class SessionMetrics:
    """Counts the events of every reply. Several may run at once, one in each conversation."""

    def __init__(self) -> None:
        self.shown = ""
        """Id of the open conversation."""
        self._answers: dict[str, tuple[Totals, Stats]] = {}
        """The last answer of each conversation, with the last figures that it reported."""
        self.session = Totals()
        self.round_trips: deque[float] = deque(maxlen=SHOWN_ROUND_TRIPS)
        """Seconds, the newest last."""
        self.stats = Stats()
        """The last figures that a reply reported."""

    @property
    def answer(self) -> Totals:
        """Those of the last answer of the open conversation."""
        return self._answers.get(self.shown, (Totals(), Stats()))[0]

    def apply(self, event: Event, conversation: str = "") -> None:
        """Count an event of the reply that runs in this conversation."""
        if isinstance(event, Started):
            self._answers[conversation] = Totals(answers=1), Stats()
            self.session.answers += 1
        answer, before = self._answers.setdefault(conversation, (Totals(), Stats()))
        self.session.dimmed.count(answer.dimmed, event)
        if isinstance(event, RoundEnded | Done):
            for totals in (answer, self.session):
                totals.add(event.stats, before)
            self._answers[conversation] = answer, event.stats
            self.stats = event.stats
        if isinstance(event, RoundEnded) and (report := event.report) is not None:
            answer.acceptance.add(report)
            self.session.acceptance.add(report)
            if report.rtt_seconds > 0:
                self.round_trips.append(report.rtt_seconds)


def bytes_text(count: float) -> str:
    """A number of bytes with up to three digits and a unit."""
    for unit in ("B", "kB", "MB"):
        if abs(count) < 999.5:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 9.95 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
