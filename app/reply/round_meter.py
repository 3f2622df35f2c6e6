"""Times one answer's rounds, from which the line, the costs of a round and the choice of a mode are learnt."""

from __future__ import annotations

from app.events import RoundReport
from app.remotes.connection import Connection
from remote import RoundReply
from remote.clock import Clock

LONGEST_READ = 256
"""Most prompt tokens of a round that is typical of others; longer prompts are read in pieces."""


class RoundMeter:
    """Call for each round, in this order: `begin`, `drafted`, `sent`, `returned`, `ended`. All times are seconds."""

    def __init__(self, connection: Connection, clock: Clock, *, opening: bool) -> None:
        """`opening`: the first round opens the answer."""
        self._connection, self._clock = connection, clock
        self._opening = opening
        self._usual: RoundReply | None = None
        """The last round, if it was typical: no prompt to read, nothing resent."""
        self._counts = False
        """Whether the round in flight is representative. A verifier's very first forward is not, because it takes
        longer."""
        self._unread, self._made = 0, False
        self._begun = self._drafted = self._sent = self._ended = clock.now()

    @property
    def after_usual(self) -> bool:
        """Whether the last round was typical, so that its time predicts the next one's."""
        return self._usual is not None

    @property
    def draft_seconds(self) -> float:
        return self._drafted - self._begun

    def begin(self, *, adopts: bool) -> None:
        """A round begins, and the previous one is over. `adopts`: the latter's memory may still be in transit."""
        self._begun = self._clock.now()
        if self._usual is not None:
            if not adopts:
                self._connection.speed.link.received(
                    self._usual.traffic.streamed, self._usual.traffic.streaming_seconds
                )
            self._connection.speed.costs.waited(self._begun - self._sent - self._usual.verdict.server_seconds)

    def drafted(self, *, made: bool) -> None:
        """The draft is made; `made` False: none was requested."""
        self._drafted, self._made = self._clock.now(), made

    def sent(self, unread: int) -> None:
        """The round is sent, with `unread` tokens that the verifier has not read."""
        # After the draft comes a wait for the previous round's memory, which is charged to that round.
        self._sent = self._drafted if self._usual is not None else self._clock.now()
        self._unread = unread
        self._counts = self._connection.speed.server_seconds is not None

    def is_usual(self, reply: RoundReply) -> bool:
        """Whether no prompt had to be read and nothing was resent."""
        return not self._unread and reply.exchanges == 1

    def returned(self, reply: RoundReply, nodes: int) -> None:
        """The verdict on a draft of this many nodes has arrived."""
        self._counts = self._counts and reply.exchanges == 1
        self._connection.speed.served(reply)
        if self._counts and self._unread <= LONGEST_READ:
            self._connection.speed.costs.judged(max(0, self._unread - 1) + nodes, reply.verdict.server_seconds)
        self._usual = reply if self.is_usual(reply) else None

    def ended(self, report: RoundReport, *, drafted_here: bool) -> None:
        """The round's text is shown.

        `drafted_here` False: it judged text written offline, or nobody could draft, so it says nothing about speed.
        """
        now = self._clock.now()
        if self._counts and drafted_here and self._connection.answers <= 1:
            seconds = now - self._ended - report.rtt_seconds
            self._connection.speed.modes.edge(report.gained, seconds, report.server_seconds, opening=self._opening)
            self._tell_payoff(report, now - self._ended)
        self._ended, self._opening = now, False

    def _tell_payoff(self, report: RoundReport, seconds: float) -> None:
        """Record the gain and the seconds of a round with or without a draft."""
        payoff = self._connection.speed.payoff
        if self._usual is not None:
            payoff.ended(
                report.gained, seconds, drafting=self.draft_seconds, line=report.rtt_seconds, drafted=self._made
            )
        elif self._opening and self._made:
            payoff.opened(report.gained - 1, self.draft_seconds)
