"""The second stage: n-gram guesses that the drafter checks in one pass, as the target checks the drafter's.

Source: staged speculative decoding (arXiv 2308.04623). A guess costs rows of a step that runs anyway, so it is made
only as long as it pays: how often a match of each length has been right, and what a further row of a step costs, are
both learnt on the way. What is not worth guessing is still compared with what comes, so that the second stage finds
out when it would be. One conversation each; knows nothing of models, caches or trees. Not thread-safe.
"""

from __future__ import annotations

from collections.abc import Sequence

from drafter.ngram import LONGEST, Match, NGramIndex

MOST = 16
"""Tokens guessed at once."""
PRIOR = 2.0
"""Comparisons that the first estimate weighs as much as."""
KEPT = 0.99
"""Share of its weight that a comparison keeps at the next one: some 100 comparisons count."""
FIRST_ROW_COST = 0.15
"""What a row adds to a step, as a share of a step with one row, until it has been timed."""
SMOOTHING = 0.1
"""Weight of the newest timing."""


class Experience:
    """How often guesses hold, and what their rows cost. The conversations of one drafter share it, on one thread."""

    def __init__(self) -> None:
        self.row_cost = FIRST_ROW_COST
        """What a row adds to a step, as a share of a step with one row."""
        self._step_seconds = 0.0
        self._hits = [0.0] * (LONGEST + 1)
        self._tries = [0.0] * (LONGEST + 1)

    def chance(self, length: int, share: float = 1.0) -> float:
        """The probability that a match of `length` tokens goes on as `share` of its occurrences did.

        The share, times what matches of this length have been worth: at first n / (n + 1) for n tokens.
        """
        length = min(length, LONGEST)
        worth = (self._hits[length] + PRIOR * length / (length + 1)) / (self._tries[length] + PRIOR)
        return min(share * worth, 1.0)

    def learn(self, length: int, share: float, hit: bool) -> None:
        """What such a match promised came, or did not."""
        length = min(length, LONGEST)
        self._hits[length] = KEPT * self._hits[length] + hit
        self._tries[length] = KEPT * self._tries[length] + share

    def timed(self, rows: int, seconds: float) -> None:
        """A step of so many rows took so long. A pause of the whole machine counts as little as a slow step."""
        if rows == 1:
            seconds = min(seconds, 2 * self._step_seconds) if self._step_seconds else seconds
            self._step_seconds += (SMOOTHING if self._step_seconds else 1.0) * (seconds - self._step_seconds)
        elif self._step_seconds:
            cost = (seconds / self._step_seconds - 1) / (rows - 1)
            self.row_cost += SMOOTHING * (min(max(cost, 0.0), 1.0) - self.row_cost)


class SecondStage:
    """Guesses at how one conversation goes on: from what was said in it, and from `stored` texts."""

    def __init__(self, stored: NGramIndex | None = None, experience: Experience | None = None) -> None:
        self.stored = stored
        """Other texts, only read here; several conversations may share them."""
        self.experience = experience or Experience()
        self.accepted = 0
        """Tokens that were guessed here and came."""
        self._said = NGramIndex()
        self._chain: list[int] = []
        """The likeliest continuation, guessed or not, until the next commit."""
        self._match = _NO_MATCH
        """Where it comes from."""
        self._guessed = 0
        """How many tokens of the chain were given away as a guess."""

    # ---- what has been said ------------------------------------------------------------------------------------------

    def commit(self, tokens: Sequence[int]) -> None:
        """Append tokens, and learn from what was expected in their place."""
        share = self._match.share
        for at, (expected, token) in enumerate(zip(self._chain, tokens)):
            self.experience.learn(self._match.length + at, share, expected == token)
            if expected != token:
                break
            self.accepted += at < self._guessed
            share = 1.0
        self._said.extend(tokens)
        self._forget_chain()

    def rewind(self, length: int) -> None:
        """Forget all tokens from position `length` on."""
        self._said.rewind(length)
        self._forget_chain()

    # ---- guessing ----------------------------------------------------------------------------------------------------

    def guess(self, most: int = MOST) -> list[int]:
        """A chain of at most `most` tokens that may come next, as long as it is worth its rows; often empty.

        A row is worth adding while it raises tokens per second: while the chance that its token comes, over the row's
        cost, is above the tokens per cost so far.
        """
        self._look_up()
        row_cost, share = self.experience.row_cost, self._match.share
        gained = cost = reached = 1.0
        worth = 0
        for at in range(min(most, len(self._chain))):
            reached *= self.experience.chance(self._match.length + at, share)
            if reached * cost <= gained * row_cost:
                break
            gained, cost, worth, share = gained + reached, cost + row_cost, at + 1, 1.0
        self._guessed = worth
        return self._chain[:worth]

    def keep(self, count: int) -> None:
        """Of the last guess only the first `count` tokens are put to the test."""
        self._guessed = min(self._guessed, count)

    def _look_up(self) -> None:
        self._forget_chain()
        said = self._said.tokens
        here = self._said.match(said)
        there = None if self.stored is None else self.stored.match(said)
        if there is not None and self.stored is not None and (here is None or there.length > here.length):
            self._chain, self._match = self.stored.continuation(there.position, MOST), there
        elif here is not None:
            self._chain, self._match = self._said.continuation(here.position, MOST), here

    def _forget_chain(self) -> None:
        self._chain, self._match, self._guessed = [], _NO_MATCH, 0


_NO_MATCH = Match(0, 0, 0.0)
