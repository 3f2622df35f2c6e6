"""Compares two versions of a drafter on the same held-out rounds.

At temperature 0 a chain of guesses is accepted as long as each guess is the target's token, so its length follows from
the drafter's hits along the verified text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

DEPTH = 8
"""Guesses of a chain."""
DRAWS = 2000
"""Draws of the bootstrap."""
WORST_LOSS = 0.01
"""How much of its tau may be lost on the fixed set, as a share."""

Hits = NDArray[np.bool_]


@dataclass(frozen=True)
class Judged:
    """The gains of two versions on the same answers."""

    before: float
    """Tokens per round (tau) of the version in use, with chains of `DEPTH`."""
    after: float
    """Tokens per round of the new one."""
    low: float
    """The relative gain in tau of the new one over the old one: the lower end of its 95 % interval."""
    high: float
    answers: int

    @property
    def gain(self) -> float:
        """The relative gain in tau of the new one over the old one."""
        return self.after / self.before - 1 if self.before else 0.0


def rounds_of(hits: Hits, depth: int = DEPTH) -> tuple[int, int]:
    """Tokens of an answer, and the rounds that chains of this many guesses would have taken, bonus tokens included.

    `hits`: at each token of the answer, whether the drafter's best guess was right.

    >>> rounds_of(np.array([True, True, False, True, True]), depth=8)
    (5, 2)
    """
    at = rounds = 0
    while at < len(hits):
        wrong = np.flatnonzero(~hits[at : at + depth])
        at += (int(wrong[0]) if wrong.size else depth) + 1
        rounds += 1
    return len(hits), rounds


def tau(answers: Sequence[Hits], depth: int = DEPTH) -> float:
    """Tokens per round over all answers; 0 if there are none."""
    counted = np.array([rounds_of(hits, depth) for hits in answers]).reshape(-1, 2).sum(axis=0)
    return float(counted[0] / counted[1]) if counted[1] else 0.0


def compare(before: Sequence[Hits], after: Sequence[Hits], seed: int = 0) -> Judged:
    """Compare two versions on the same answers, with a paired bootstrap over the answers."""
    counted = np.array([(*rounds_of(old), rounds_of(new)[1]) for old, new in zip(before, after, strict=True)])
    if not counted.size:
        return Judged(0.0, 0.0, 0.0, 0.0, 0)
    drawn = np.random.default_rng(seed).integers(len(counted), size=(DRAWS, len(counted)))
    sums = counted[drawn].sum(axis=1)  # (DRAWS, 3): tokens, old rounds, new rounds
    low, high = np.quantile(sums[:, 1] / sums[:, 2] - 1, (0.025, 0.975))
    tokens, old, new = counted.sum(axis=0)
    return Judged(float(tokens / old), float(tokens / new), float(low), float(high), len(counted))


def is_better(new: Judged, fixed: Judged) -> bool:
    """Whether a version may go live: certainly better on new answers, and at most 1 % worse on the fixed set."""
    return new.answers > 0 and new.low > 0 and (fixed.answers == 0 or fixed.gain >= -WORST_LOSS)


def surely_less(live: Sequence[tuple[int, int]], before: Sequence[tuple[int, int]]) -> bool:
    """Whether answers gained certainly fewer tokens per round than earlier ones: (tokens, rounds) of each answer.

    The questions differ too, so only a loss larger than the one allowed on the fixed set counts.
    """
    random = np.random.default_rng(0)

    def drawn(answers: Sequence[tuple[int, int]]) -> NDArray[np.float64]:
        counted = np.array(answers, np.float64)
        sums = counted[random.integers(len(counted), size=(DRAWS, len(counted)))].sum(axis=1)
        return np.asarray(sums[:, 0] / sums[:, 1])

    return bool(np.quantile(drawn(live) / drawn(before), 0.975) < 1 - WORST_LOSS)
