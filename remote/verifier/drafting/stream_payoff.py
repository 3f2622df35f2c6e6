"""Decides which kind of draft pays off in a stream: the drafter's, one looked up in earlier text, or none.

Whether the drafter's drafts pay off is measured, by the rule of `drafter/pacer.py`: the way that has lately gained more
tokens a second is used. A trial of `TRIAL` rounds judges them; trials may cost a twentieth of the time (`Allowance`).
After a rest they are tried again, and each rest is twice as long as the previous one. A looked-up draft needs no trial,
because its chances are learnt without it: it is as long as gives the most expected tokens a second, and is made where
that is more than without.

When many sessions share a forward, one more row costs as much as another session's token. So there are fewer drafts
with a few sessions, and none with many. The caller measures all times, in seconds, over all sessions. No clock, no
drafter.
"""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drafter.cost import Cost
from drafter.pacer import Allowance, Recent
from remote.verifier.drafting.forward_times import BEYOND, ForwardTimes

FIRST_NODES = 4
"""Most nodes of the drafter's drafts until they are known to pay off."""
FEW = 8
"""Tokens that are read in passing."""
SAVED = 20.0
"""Most tokens that are saved up for trials: for one, the drafter reads a whole conversation."""
PLAIN = 2
"""Rounds without a draft before the first one with a draft: they set the rate that a draft has to beat."""
LONGEST_READ = 256
"""Longest prompt, in tokens, whose forward is still representative of other rounds."""
LONG = 0.99
"""Weight that a round keeps at the next one when reading is counted: about 100 rounds of several answers count."""
NEWEST = 0.1
"""Weight of the newest round in the means of first guesses and of sessions per forward."""
TRIAL = 16
"""Rounds that judge the drafter's drafts."""
FIRST_REST, REST = 256, 4096
"""Rounds to wait before trying them again: at first, and at most."""
CROWD = 4.0
"""Number of sessions in a forward from which on no drafts are made just for trial."""


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


class Drafting(Recent):
    """The drafter's drafts: the results of recent rounds with them, and their rest after a trial.

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
        """Count a round without such a draft. Returns True if the rest is over and they are to be tried again."""
        self.rested += 1
        if self.rested < self._rest:
            return False
        self._rest = min(REST, 2 * self._rest)
        self.forget()
        return True

    def forget(self) -> None:
        """Drop the measurements, so that they are tried again."""
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
        self.drafting = Drafting()
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
        """Allowance for trials, in tokens that rounds without drafts would have given."""
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
        twin.drafting, twin.learning = Drafting(), True
        twin.forget_drafts()
        return twin

    # ---- decisions ---------------------------------------------------------------------------------------------------

    @property
    def cost(self) -> Cost | None:
        """What a round costs one session that shares its forward with the usual number of others, or None."""
        if not self.forwards.known or (self._drafter and not self.calls.count):
            return None
        level = self.calls.seconds / self.calls.amounts[0] if self._drafter else 0.0
        return Cost(float(self._seconds(0)[0]), level, self.forwards.row)

    def looking(self, most: int) -> NDArray[np.float64] | None:
        """Seconds of a round with a looked-up draft of 0, 1, ... at most `most` tokens, or None while they are unknown.

        They are estimated for up to `BEYOND` times as many tokens as rows have run together.
        """
        if self._plain < PLAIN or not self.forwards.known:
            return None
        return self._seconds(min(most, BEYOND * self.forwards.largest))

    def _seconds(self, nodes: int) -> NDArray[np.float64]:
        """Seconds of a round with 0, 1, ... `nodes` nodes, in a forward that is shared as usual, (nodes + 1,).

        A session pays its share of the forward, and the full price of its nodes, because all sessions wait for them.
        """
        company = self._company
        whole = self.forwards.seconds(company, nodes)
        seconds: NDArray[np.float64] = whole - whole[0] + whole[0] / company + self.beside.seconds
        return seconds

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

    def _wins(self, cost: Cost, beside: float = 0.0) -> bool:
        """Whether rounds with the drafter's drafts have gained more per second than others, if there were any.

        `beside`: additional seconds that each of them takes.
        """
        gain = self.drafting.gain(replace(cost, round=cost.round + beside)) if self.drafting.count else 0.0
        return gain > 1 / max(cost.round, 1e-9)

    # ---- measurements ------------------------------------------------------------------------------------------------

    def ran(self, judged: Judged, pending: int) -> None:
        """Record the time of a round's forward, which ran `pending` committed tokens of the session."""
        self._company += NEWEST * (judged.sessions - self._company)
        if pending <= FEW:  # A prompt's rows cost less: most need no logits, and some engines run drafts in pieces.
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

    def gained(self, tokens: int, nodes: int, seconds: float, *, drafted: bool) -> None:
        """Record a round: its tokens, and the nodes and seconds of its draft. `drafted`: by the drafter."""
        self._plain += not nodes
        if not self._drafter:
            return
        cost = self.cost
        if drafted:
            self.drafting.add(seconds, tokens, nodes)
        if cost is not None:
            taken = (cost.round + nodes * cost.node + seconds) / cost.round
            self.allowance.earned(taken)
            self.allowance.spent(taken - tokens if drafted else 0.0)
        if drafted:
            self._read_rounds = LONG * self._read_rounds + 1
            self._read_seconds *= LONG
        elif self.drafting.went_without():
            self.forget_drafts()
