"""The second stage: n-gram guesses that the drafter checks in one pass, as the target checks the drafter's.

Source: staged speculative decoding (arXiv 2308.04623). A guess adds rows to a step that runs anyway, so it is made only
while it pays off. Two things are learnt for that: how often a match of each length has been right, and what one more
row of a step costs. Guesses that are not worth their rows are still compared with the actual tokens, so the second
stage notices when they become worthwhile. One object for each conversation. No models, caches or trees. Not
thread-safe.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os.path import commonprefix
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drafter.ngram import BREAK, LONGEST, Match, NGramIndex
from drafter.pacer import Recent

MOST = 16
"""Most tokens in one guess."""
PRIOR = 1.0
"""Weight of the first estimate, in comparisons that came true and as many that did not."""
KEPT = 0.99
"""Share of its weight that a comparison keeps at the next one: about 100 comparisons count."""
FIRST_ROW_COST = 0.15
"""Cost of one more row, as a share of a step with one row, before it has been timed."""
SMOOTHING = 0.1
"""Weight of the newest timing in the cost of a row."""


class Chain(NamedTuple):
    """The likeliest continuation of a text. Not all of it may have been guessed."""

    tokens: list[int]
    support: list[tuple[int, int, int]]
    """For each token: length of the match, votes for the token, and occurrences."""
    guessed: int
    """How many of the tokens were returned as a guess."""


NO_CHAIN = Chain([], [], 0)


class Experience:
    """How often guesses come true, and what their rows cost.

    The conversations of one drafter share it, on one thread.
    """

    def __init__(self) -> None:
        self.row_cost = FIRST_ROW_COST
        """Cost of one more row, as a share of a step with one row."""
        self._alone = Recent()
        """Seconds of steps with one row."""
        self._seen = [0.0] * (LONGEST + 1)
        self._hits = [0.0] * (LONGEST + 1)
        self._promised = [0.0] * (LONGEST + 1)
        """Comparisons, how many came true, and how many were expected to, by the length of the match."""

    def chance(self, length: int, votes: int, occurrences: int) -> float:
        """The chance that a match of `length` tokens continues like the occurrences that `votes` counts.

        The odds are those of the first estimate, times a factor learnt for this length. For a short match, it is at
        most 1: a conversation that copies says nothing about one that does not.
        """
        at, first = min(length, LONGEST), _promise(length, votes, occurrences)
        seen, hits, promised = self._seen[at], self._hits[at], self._promised[at]
        factor = (hits + PRIOR) / (promised + PRIOR) * (seen - promised + PRIOR) / (seen - hits + PRIOR)
        odds = first * (factor if at == LONGEST else min(factor, 1.0))
        return odds / (odds + 1 - first)

    def learn(self, length: int, votes: int, occurrences: int, hit: bool) -> None:
        """Learn whether the continuation of such a match came true."""
        at = min(length, LONGEST)
        self._seen[at] = KEPT * self._seen[at] + 1
        self._hits[at] = KEPT * self._hits[at] + hit
        self._promised[at] = KEPT * self._promised[at] + _promise(length, votes, occurrences)

    def timed(self, rows: int, seconds: float) -> None:
        """Record the seconds of a step with this many rows."""
        if rows == 1:
            self._alone.add(seconds)
        elif self._alone.seconds:
            cost = (seconds / self._alone.seconds - 1) / (rows - 1)
            self.row_cost += SMOOTHING * (min(max(cost, 0.0), 1.0) - self.row_cost)


class SecondStage:
    """Guesses how one conversation continues, from its own text and from `stored` texts."""

    def __init__(self, stored: Sequence[NGramIndex] = (), experience: Experience | None = None) -> None:
        self.stored = stored
        """Other texts, read-only, which several conversations may share."""
        self.experience = experience or Experience()
        self.accepted = 0
        """Tokens that were guessed here and came true."""
        self.chain = NO_CHAIN
        """What the draft in use expects, until the next commit. To use an older draft, put its chain here."""
        self._said = NGramIndex()

    # ---- what has been said ------------------------------------------------------------------------------------------

    @property
    def length(self) -> int:
        """Number of tokens so far."""
        return len(self._said.tokens)

    def commit(self, tokens: Sequence[int]) -> None:
        """Append tokens, and compare them with what was expected."""
        for at, (expected, token) in enumerate(zip(self.chain.tokens, tokens)):
            self.experience.learn(*self.chain.support[at], expected == token)
            if expected != token:
                break
            self.accepted += at < self.chain.guessed
        self._said.extend(tokens)
        self.chain = NO_CHAIN

    def rewind(self, length: int) -> None:
        """Forget all tokens from position `length` on."""
        self._said.rewind(length)
        self.chain = NO_CHAIN

    def follow(self, tokens: Sequence[int]) -> None:
        """Replace the tokens by `tokens`. The common beginning stays; the rest is learnt from."""
        known = len(commonprefix((self._said.tokens.tolist(), list(tokens))))
        if known < self.length:
            self.rewind(known)
        if known < len(tokens):
            self.commit(tokens[known:])

    @contextmanager
    def supposing(self, tokens: Sequence[int]) -> Iterator[None]:
        """Act inside the block as if `tokens` came next. Nothing is learnt, and everything is restored afterwards."""
        length, chain = self.length, self.chain
        self._said.extend(tokens)
        try:
            yield
        finally:
            self._said.rewind(length)
            self.chain = chain

    # ---- guessing ----------------------------------------------------------------------------------------------------

    def follows(self) -> bool:
        """Whether the end of the text has occurred before, so that there is something to guess."""
        return any(index.matches(self._said.tokens) for index in (self._said, *self.stored))

    def guess(self, most: int = MOST, costs: NDArray[np.float64] | None = None) -> list[int]:
        """The tokens that may come next, as many as gain the most tokens per cost. Often none.

        `costs`: of a step with 0, 1, 2, ... guessed tokens, (n + 1,); by default as timed, with at most `most` tokens.
        """
        cost = 1 + self.experience.row_cost * np.arange(most + 1) if costs is None else costs
        price: list[float] = cost.tolist()
        gained, reached, guessed = 1.0, 1.0, 0
        best = gained / price[0]
        tokens, support = list[int](), list[tuple[int, int, int]]()
        for count, (token, found) in enumerate(self._likeliest(max(1, len(price) - 1)), 1):
            tokens.append(token)
            support.append(found)
            if count == len(price):
                break
            reached *= self.experience.chance(*found)
            gained += reached
            if gained > best * price[count]:
                best, guessed = gained / price[count], count
            # Rows may cost nothing after some that cost much: continue while certain tokens would still pay.
            elif not (gained + reached * np.arange(1, len(price) - count) > best * cost[count + 1 :]).any():
                break
        self.chain = Chain(tokens, support, guessed)
        return tokens[:guessed]

    @property
    def expected(self) -> float:
        """Tokens that a round with the last guess should gain, the bonus included."""
        gained = reached = 1.0
        for support in self.chain.support[: self.chain.guessed]:
            reached *= self.experience.chance(*support)
            gained += reached
        return gained

    def keep(self, count: int) -> None:
        """Keep only the first `count` tokens of the last guess for the comparison."""
        self.chain = self.chain._replace(guessed=min(self.chain.guessed, count))

    def _likeliest(self, most: int) -> Iterator[tuple[int, tuple[int, int, int]]]:
        """The continuation of the longest match, token by token, each with its support, as in `Chain`.

        As in a back-off model (such as the n-gram stage of arXiv 2308.04623), shorter contexts also count: where a pair
        of tokens has continued in many ways, a single longer match promises little.
        """
        said = self._said.tokens
        matches = [match for index in (self._said, *self.stored) for match in index.matches(said)]
        for at in range(most):
            votes: dict[int, list[Match]] = {}
            for match in matches:
                if (token := match.following(at)) != BREAK:
                    votes.setdefault(token, []).append(match)
            if not votes:
                break
            lengths = {token: max(match.length for match in found) for token, found in votes.items()}
            token = max(votes, key=lambda token: (lengths[token], len(votes[token])))
            yield token, (lengths[token] + at, len(votes[token]), len(matches))
            matches = votes[token]


def _promise(length: int, votes: int, occurrences: int) -> float:
    """A first estimate of the chance, fitted to about 600 answers that the bundled drafter wrote.

    Matches that occurred often and always continued in the same way are nearly certain. A match that occurred once is
    worth more the longer it is. A split vote is worth at most its share.
    """
    return float((votes / occurrences) ** max(1.0, 4 / length) * (1 - 1.5 / (length * occurrences)))
