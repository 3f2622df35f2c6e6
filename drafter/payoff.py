"""Whether drafts pay at all, learnt from rounds with one and from rounds without.

`drafter/cost.py` says how large a draft should be, from rounds that had one. What a round without any takes is a guess
there, and on some engines a bad one: checking two tokens can cost several times as much as making one. So where it
could be faster, a few rounds go without a draft, and what gained more tokens a second goes on. The caller measures all
seconds. No clock, no trees, no network.
"""

from __future__ import annotations

KEPT = 0.97
"""Share of its weight that a round keeps at the next one of its kind: about 30 rounds count."""
PAUSE = 3.0
"""A round counts as at most this many times the mean of its kind. Beyond that the machine was busy elsewhere."""
TRIAL = {True: 12, False: 6}
"""Rounds of a trial, with drafts and without. Without any, one is like the next."""
REST = 512
"""Rounds of one kind after which the other is tried again. For a draft, a drafter first reads all that was said since
its last one."""
SOON = 64
"""Rounds with drafts after which rounds without any are tried again, if these were not clearly worse: such a trial is
short, and the machine may have been busy during the last one."""
CLEAR = 1.5
"""Rounds with drafts are clearly better if they give so many times the tokens a second."""
LEAST = 1 / 3
"""Without a draft, the verifier's part of a round takes at least this share of what it takes with one. So where the
line takes longest, nothing is tried."""


SHARE = 0.05
"""Trying what may turn out slower costs at most this share of the time of answers."""
SAVED = 5.0
"""Tokens that are saved up for it at most: that share of a short answer."""


class Allowance:
    """What trying may still cost, in tokens that the same time would have given without."""

    def __init__(self, left: float = 0.0, most: float = SAVED) -> None:
        self.left, self.most = left, most

    def earned(self, tokens: float) -> None:
        """Take the time of a round, in tokens that it would have given without any trial."""
        self.left = min(self.most, self.left + SHARE * tokens)

    def spent(self, tokens: float) -> None:
        """Take what a trial gave less than that; below 0: it gave more."""
        self.left = min(self.most, self.left - tokens)


class _Rounds:
    """Sums over the rounds of one kind; newer ones weigh more."""

    def __init__(self) -> None:
        self.number = 0
        self._weight = self._tokens = self._seconds = self._least = 0.0

    def add(self, tokens: int, seconds: float, least: float) -> None:
        if self.number:
            seconds = min(seconds, PAUSE * self._seconds / self._weight)
        self.number += 1
        self._weight = KEPT * self._weight + 1
        self._tokens = KEPT * self._tokens + tokens
        self._seconds = KEPT * self._seconds + seconds
        self._least = KEPT * self._least + min(least, seconds)

    def carry(self, tokens: int, seconds: float) -> None:
        """Count tokens and seconds that are no round of their own."""
        self._tokens += tokens
        self._seconds += seconds

    @property
    def rate(self) -> float:
        """Tokens a second."""
        return self._tokens / max(self._seconds, 1e-9)

    @property
    def best_rate(self) -> float:
        """Tokens a second that rounds of one token could come to, if each took no longer than it must."""
        return self._weight / max(self._least, 1e-9)


class Payoff:
    """Compares rounds with and without drafts, with one verifier over one line."""

    def __init__(self) -> None:
        self.pays = True
        """Whether to draft for the next round."""
        self._kinds = {drafted: _Rounds() for drafted in TRIAL}
        self._trial = TRIAL[True]
        """Rounds that the present trial still takes."""
        self._rest = 0
        """Rounds since the last trial."""

    def opened(self, tokens: int, drafting: float) -> None:
        """Take the draft of an answer's first round, for which the drafter read the question: its seconds, and the
        tokens that it gained. What else such a round takes, it takes in any case."""
        self._kinds[True].carry(tokens, drafting)

    def ended(self, tokens: int, seconds: float, *, drafting: float, line: float, drafted: bool) -> None:
        """Take a round: the tokens that it gained, and what it took with its draft and the line.

        `drafting`: seconds for its draft. `line`: seconds that any round waits for the line. `drafted`: a draft was
        made, however small.
        """
        self._kinds[drafted].add(tokens, seconds, line + LEAST * max(0.0, seconds - line - drafting))
        if drafted == self.pays and self._trial:
            self._trial -= 1
        if self._trial:
            return
        self._rest += 1
        with_drafts, without = self._kinds[True], self._kinds[False]
        self.pays = better = not without.number or with_drafts.rate > without.rate
        soon = better and with_drafts.rate < CLEAR * without.rate
        due = not without.number or self._rest > (SOON if soon else REST)
        if due and self._worth_trying(not better):
            self.pays, self._trial, self._rest = not better, TRIAL[not better], 0
            self._kinds[not better] = _Rounds()  # What was once, says little about now.

    def _worth_trying(self, drafted: bool) -> bool:
        """Whether rounds of this kind could be the faster ones."""
        return drafted or self._kinds[True].best_rate > self._kinds[True].rate
