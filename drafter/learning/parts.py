"""Which answers are learnt from, which say when to stop, and which judge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

FEWEST = 30
"""Answers to learn from; with fewer, nothing is learnt yet."""
PARTS = 5
"""The newest of so many parts judges. One in so many of the others is in the fixed set, and one says when to stop."""
FIXED = 40
"""Answers of the fixed set, the oldest ones, at most."""


class Split(NamedTuple, Generic[T]):
    """Answers, by what they are for."""

    learnt: Sequence[T]
    stopping: Sequence[T]
    """They say when to stop."""
    judging: Sequence[T]
    """The newest ones: what is learnt is for those that come next."""
    fixed: Sequence[T]
    """The fixed set, of which little may be lost."""


def split(answers: Sequence[T]) -> Split[T]:
    """Split at least `PARTS` answers, oldest first."""
    older, judging = answers[: -(len(answers) // PARTS)], answers[-(len(answers) // PARTS) :]
    learnt = [one for at, one in enumerate(older) if at % PARTS > 1]
    return Split(learnt, older[1::PARTS], judging, older[::PARTS][:FIXED])
