"""Learns whether drafts pay off at all, from rounds with a draft and rounds without.

`drafter/cost.py` decides how large a draft should be, from rounds that had one. There, the time of a round without a
draft is a guess, and on some engines a bad one: checking two tokens can cost several times as much as making one. So
both kinds of rounds are compared by the rule of `drafter/pacer.py`, unless the line is so slow that a draft always pays
off.
"""

from __future__ import annotations

from drafter.pacer import Pacer, Recent, Trial

KEPT = 0.97
"""About 30 rounds of each kind count."""
TRIALS = {True: Trial(rounds=12, rest=512), False: Trial(rounds=6, rest=128)}
"""Trials of rounds with drafts, and of rounds without. Those with drafts are expensive: the drafter first reads
everything since its last draft. Those without are all alike, so a few are enough."""
LONGEST = 512
"""Longest rest, in rounds."""
LEAST = 1 / 3
"""Without a draft, the verifier's part of a round takes at least this share of what it takes with one. So if the line
dominates, nothing is tried."""


class Payoff:
    """Compares rounds with and without drafts, with one verifier over one line."""

    def __init__(self) -> None:
        self._pacer = Pacer(True, TRIALS, longest=LONGEST)
        self._rounds = {drafted: Recent(KEPT) for drafted in TRIALS}
        """Seconds, tokens, and the least seconds that the round would have taken without its draft."""

    @property
    def pays(self) -> bool:
        """Whether to draft for the next round."""
        return self._pacer.way

    def opened(self, tokens: int, drafting: float) -> None:
        """Record the draft of an answer's first round, for which the drafter read the question: its seconds and its
        gain. The rest of such a round is not counted, because it takes as long without a draft.
        """
        self._rounds[True].carry(drafting, tokens, 0.0)

    def ended(self, tokens: int, seconds: float, *, drafting: float, line: float, drafted: bool) -> None:
        """Record a round: the tokens that it gained, and its total seconds.

        `drafting`: seconds for its draft. `line`: seconds that any round waits for the line. `drafted`: whether a draft
        was made, however small.
        """
        least = line + LEAST * max(0.0, seconds - line - drafting)
        self._rounds[drafted].add(seconds, tokens, min(least, seconds))
        drafts, plain = self._rounds[True], self._rounds[False]
        better = not plain.count or drafts.rate > plain.rate
        if self._pacer.went(drafted, better, worth=not better or self._plain_could_win()):
            self._rounds[self.pays] = Recent(KEPT)

    def _plain_could_win(self) -> bool:
        """Whether rounds of one token could be faster, at the least time that each must take."""
        drafts = self._rounds[True]
        return not drafts.count or 1.0 / max(drafts.amounts[1], 1e-9) > drafts.rate
