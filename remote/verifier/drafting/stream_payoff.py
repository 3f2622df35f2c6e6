"""Decides which kind of draft pays off in a stream: the drafter's, one looked up in earlier text, or none.

The rule is that of `drafter/pacer.py`: the kind of draft that has lately gained more tokens a second is used. A trial
of `TRIAL` rounds judges a kind; trials may cost a twentieth of the time (`Allowance`). After a rest the kind is tried
again, and each rest is twice as long as the previous one.

When many sessions share a forward, one more row costs as much as another session's token. So there are fewer drafts
with a few sessions, and none with many. The caller measures all times, in seconds, over all sessions. No clock, no
drafter.
"""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import NamedTuple

from drafter.cost import Cost
from drafter.pacer import Allowance, Recent
from remote.verifier.drafting.forward_times import ForwardTimes

FIRST_NODES = 4
"""Most nodes of a draft until drafts of its kind are known to pay off."""
FEW = 8
"""Tokens that the drafter reads in passing."""
SAVED = 20.0
"""Most tokens that are saved up for trials: for one, the drafter reads a whole conversation."""
LOOKING = 1.0
"""Tokens of the allowance that a trial of lookups costs."""
PLAIN = 2
"""Rounds without a draft before the first one with a draft: they set the rate that a draft has to beat."""
LONGEST_READ = 256
"""Longest prompt, in tokens, whose forward is still representative of other rounds."""
LONG = 0.99
"""Weight that a round keeps at the next one when reading is counted: about 100 rounds of several answers count."""
NEWEST = 0.1
"""Weight of the newest round in the means of first guesses and of sessions per forward."""
TRIAL = 16
"""Rounds that judge a kind of draft."""
FIRST_REST, REST = 256, 4096
"""Rounds to wait before trying a kind of draft again: at first, and at most."""
CROWD = 4.0
"""Number of sessions in a forward from which on no drafts are made just for trial."""
LITTLE = 0.95
"""Lookups continue while they gain this share of what other rounds gain, because a text may begin to repeat itself."""
FULL_PRICE = 0.9
"""Nothing is looked up if a row costs at least this share of a round: hardly any guess is sure enough."""


class Judged(NamedTuple):
    """The verdict on a draft, and the cost of its forward."""

    accepted: tuple[int, ...]
    bonus: int | None
    new: list[int]
    rows: int
    """Rows of all sessions in the forward."""
    seconds: float
    sessions: int
    """How many sessions shared the forward."""


class Kind(Recent):
    """A kind of draft: the results of recent rounds with it, and its rest after a trial.

    Its amounts are the tokens of a round and the nodes of its draft; its seconds are those of drafting.
    """

    def __init__(self) -> None:
        super().__init__()
        self.rested = 0
        """Rounds without one since the last."""
        self._rest = FIRST_REST

    @property
    def known(self) -> bool:
        return self.count >= TRIAL

    def add(self, seconds: float, *amounts: float) -> None:
        super().add(seconds, *amounts)
        self.rested = 0

    def went_without(self) -> bool:
        """Count a round without such a draft. Returns True if the rest is over and the kind is to be tried again."""
        self.rested += 1
        if self.rested < self._rest:
            return False
        self._rest = min(REST, 2 * self._rest)
        self.forget()
        return True

    def forget(self) -> None:
        """Drop the measurements, so that the kind is tried again."""
        super().__init__(self.kept)
        self.rested = 0

    def gain(self, cost: Cost) -> float:
        """Tokens per second at this cost of a round. Requires at least one round."""
        tokens, nodes = self.amounts
        return tokens / max(cost.round + nodes * cost.node + self.seconds, 1e-9)


class StreamPayoff:
    """Measures the rounds of all streams, and chooses the draft of the next one. `drafter`: whether there is one."""

    def __init__(self, *, drafter: bool = True) -> None:
        self._drafter = drafter
        self.drafting, self.looking = Kind(), Kind()
        """The drafter's drafts, and lookups in earlier text, successful or not."""
        self.learning = False
        """The drafter learns from verdicts on its drafts. So it drafts even if that does not pay off, except with many
        sessions."""
        self.calls = Recent()
        """Seconds of drafts, by the drafter calls in them."""
        self.forwards = ForwardTimes()
        """Whole forwards, with the rows of all sessions."""
        self.reading = Recent()
        """Seconds to read, with their memory, tokens that were committed without the drafter, by their number."""
        self.beside = Recent()
        """Seconds of a round besides its forward and its draft, in a session that is alone."""
        self.allowance = Allowance(most=SAVED)
        """What trials may cost, in tokens that rounds without drafts would have given."""
        self._company = 1.0
        """Recent number of sessions in a forward."""
        self._read_seconds = self._read_rounds = 0.0
        """Recent seconds of reading, and the rounds with drafts that it was for."""
        self._plain = 0
        """Rounds without a draft."""
        self._first_right = 0.8
        """Recent share of drafts whose first token was accepted."""

    def forget_drafts(self) -> None:
        """Drop the measurements of the drafter's drafts, so that they are tried again."""
        known, self.calls = self.calls, Recent()
        if known.count:  # The next draft's timing of calls weighs as much as all earlier ones.
            self.calls.add(known.seconds, *known.amounts)
        self.drafting.forget()
        self._first_right = 0.8

    def twin(self) -> StreamPayoff:
        """A copy for a drafter that learns, which shares the timings of calls and forwards."""
        twin = copy.copy(self)
        twin.drafting, twin.looking, twin.learning = Kind(), Kind(), True
        twin.forget_drafts()
        return twin

    # ---- decisions ---------------------------------------------------------------------------------------------------

    @property
    def cost(self) -> Cost | None:
        """What a round costs one session that shares its forward with the usual number of others, or None."""
        if not self.forwards.known or (self._drafter and not self.calls.count):
            return None
        company, level = self._company, self.calls.seconds / self.calls.amounts[0] if self._drafter else 0.0
        whole = self.forwards.seconds(company, company)
        return Cost(whole / company + self.beside.seconds, level, self.forwards.row)

    @property
    def gain(self) -> float:
        """Tokens per second with the drafter's drafts: 0 if they do not pay off, infinite while nothing is known."""
        cost = self.cost
        if not self.pays:
            return 0.0
        return math.inf if cost is None or not self.drafting.known else self.drafting.gain(cost)

    @property
    def pays(self) -> bool:
        """Whether a draft by the drafter would be worth its time.

        A correct first guess saves a round, and costs a call and a row. Rounds with drafts must gain more per second
        than those without; until that is known, they may gain less, within the allowance.
        """
        if self.learning and self._company < CROWD:
            return True
        if not self._drafter or self._plain < PLAIN:
            return False
        cost = self.cost
        if cost is None:
            return True
        if self._first_right * cost.round <= cost.level + cost.node:
            return False
        if self.drafting.known or self._wins(cost):
            return self._wins(cost)
        return self.allowance.left * cost.round >= FIRST_NODES * (cost.level + cost.node)

    def reads(self, tokens: int) -> bool:
        """Whether it would be worthwhile for the drafter to read this many tokens that it has not read.

        It is if drafts have gained more than they cost, reading included; otherwise it may be a trial.
        """
        cost = self.cost
        if cost is None or tokens <= FEW or not self.reading.count:
            return True
        if self.learning or self._wins(cost, self._read_seconds / max(self._read_rounds, 1.0)):
            return True
        each = self.reading.seconds / self.reading.amounts[0]
        return tokens * each + FIRST_NODES * (cost.level + cost.node) <= self.allowance.left * cost.round

    @property
    def looks(self) -> bool:
        """Whether lookups have roughly paid for their time and rows, or should be tried."""
        cost = self.cost
        if cost is None or cost.node >= FULL_PRICE * cost.round:
            return False
        if not self.looking.known and self.allowance.left >= LOOKING:
            return True
        return self.looking.count > 0 and self.looking.gain(cost) * cost.round > LITTLE

    def _wins(self, cost: Cost, beside: float = 0.0) -> bool:
        """Whether rounds with the drafter's drafts have gained more per second than others, if there were any.

        `beside`: additional seconds that each of them takes.
        """
        other = 1 / max(cost.round, 1e-9)
        if self.looking.known:
            other = max(other, self.looking.gain(cost))
        return self.drafting.count > 0 and self.drafting.gain(replace(cost, round=cost.round + beside)) > other

    # ---- measurements ------------------------------------------------------------------------------------------------

    def ran(self, judged: Judged, pending: int) -> None:
        """Record the time of a round's forward, which ran `pending` committed tokens of the session."""
        self._company += NEWEST * (judged.sessions - self._company)
        if pending <= LONGEST_READ:
            self.forwards.add(judged.sessions, judged.rows, judged.seconds)

    def guessed(self, right: bool) -> None:
        """Record whether a draft's first token was accepted."""
        self._first_right += NEWEST * (right - self._first_right)

    def read(self, tokens: int, seconds: float) -> None:
        """Record the time to read this many tokens for a draft, which the draft's own time excludes."""
        self.reading.add(seconds, tokens)
        self._read_seconds += seconds
        if (cost := self.cost) is not None:
            self.allowance.spent(seconds / cost.round)

    def gained(self, kind: Kind | None, tokens: int, nodes: int, seconds: float) -> None:
        """Record a round: its tokens, and the nodes and seconds of its draft.

        `kind`: `drafting` or `looking`, or None if nothing was drafted.
        """
        cost = self.cost
        self._plain += not nodes
        if kind is not None:
            kind.add(seconds, tokens, nodes)
        if cost is not None:
            taken = (cost.round + nodes * cost.node + seconds) / cost.round
            self.allowance.earned(taken)
            self.allowance.spent(taken - tokens if kind is not None else 0.0)
        if kind is self.drafting:
            self._read_rounds = LONG * self._read_rounds + 1
            self._read_seconds *= LONG
        elif self.drafting.went_without():
            self.forget_drafts()
        if kind is not self.looking:
            self.looking.went_without()
