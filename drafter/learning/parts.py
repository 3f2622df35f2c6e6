"""Splits answers into a training set, a validation set that says when to stop, and a test set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

FEWEST = 30
"""Fewest answers to learn from; with fewer, nothing is learnt yet."""
PARTS = 5
"""The newest of this many parts judges. Of the others, one in this many is in the fixed set, and one says when to
stop."""
FIXED = 40
"""Most answers of the fixed set, the oldest ones."""


class Split(NamedTuple, Generic[T]):
    """Answers by their purpose."""

    learnt: Sequence[T]
    stopping: Sequence[T]
    """The ones that say when to stop."""
    judging: Sequence[T]
    """The newest ones, which judge, because learning is for the answers that come next."""
    fixed: Sequence[T]
    """The fixed set, on which little may be lost."""


def split(answers: Sequence[T]) -> Split[T]:
    """Split at least `PARTS` answers, oldest first."""
    older, judging = answers[: -(len(answers) // PARTS)], answers[-(len(answers) // PARTS) :]
    learnt = [one for at, one in enumerate(older) if at % PARTS > 1]
    return Split(learnt, older[1::PARTS], judging, older[::PARTS][:FIXED])
