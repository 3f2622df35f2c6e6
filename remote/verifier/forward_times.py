"""What forwards of an engine take, by their sessions and rows, so that one can say what a row more would cost.

Forwards are counted in classes of about as many sessions and rows. A class knows the mean of its forwards of late, and
keeps it while others are busy. Through the classes lies a plane: seconds = fixed + sessions * a + rows * b. Sums over
all forwards of late would not tell the three apart, because for a while all forwards are about the same. No clock, no
engine.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from drafter.pacer import Recent

MOST_WEIGHT = 16
"""Forwards after which a class counts no more than with fewer."""
FIRST_ROW = 0.05
"""First guess at the cost of a row, as a share of the smallest forward."""
FIRST_ROWS, FIRST_WEIGHT = 4, 0.2
"""That guess counts as a class with so many rows more, and this weight."""
STALE = 16
"""Forwards after which the plane is laid anew. The first one of a class counts at once."""


class ForwardTimes:
    """Learns from forwards."""

    def __init__(self) -> None:
        self._classes: dict[tuple[int, int], Recent] = {}
        self._last = (0, 0, 0.0)
        self._plane = np.zeros(3)
        self._since = STALE

    @property
    def known(self) -> bool:
        """Whether there was a forward."""
        return bool(self._classes)

    def add(self, sessions: int, rows: int, seconds: float) -> None:
        """Take a forward of so many sessions and rows in all. Each of the sessions may tell of it."""
        told = sessions, rows, seconds
        if told != self._last:
            self._last = told
            known = self._classes.setdefault((sessions.bit_length(), rows.bit_length()), Recent())
            self._since += 1 if known.count else STALE
            known.add(seconds, sessions, rows)

    def seconds(self, sessions: float, rows: float) -> float:
        """What a forward should take."""
        return float(self._laid() @ (1.0, sessions, rows))

    @property
    def row(self) -> float:
        """Seconds of one row more."""
        return float(self._laid()[2])

    def _laid(self) -> NDArray[np.float64]:
        """The plane: what a forward, a session and a row take. Errors count as shares of what a class takes."""
        if self._since < STALE or not self._classes:
            return self._plane
        self._since = 0
        known = list(self._classes.values())
        least = min(known, key=lambda one: one.seconds)
        # Until there were forwards of other sizes, the first guess decides.
        sessions, rows = least.amounts
        first = [sessions, rows + FIRST_ROWS, least.seconds * (1 + FIRST_ROW * FIRST_ROWS), FIRST_WEIGHT]
        points = np.array([[*one.amounts, one.seconds, min(one.count, MOST_WEIGHT)] for one in known] + [first])
        weights = np.sqrt(points[:, 3]) / points[:, 2]
        sides = np.column_stack([np.ones(len(points)), points[:, :2]]) * weights[:, None]
        self._plane = _least_squares(sides, points[:, 2] * weights)
        return self._plane


def _least_squares(sides: NDArray[np.float64], wanted: NDArray[np.float64]) -> NDArray[np.float64]:
    """The x >= 0, (3,), with the least squares of `sides @ x - wanted`."""
    best, least = np.zeros(sides.shape[1]), np.inf
    for count in range(sides.shape[1], 0, -1):
        for kept in itertools.combinations(range(sides.shape[1]), count):
            part, *_ = np.linalg.lstsq(sides[:, kept], wanted, rcond=None)
            if part.min() < 0:
                continue
            found = np.zeros(sides.shape[1])
            found[list(kept)] = part
            if (error := float(((sides @ found - wanted) ** 2).sum())) < least:
                best, least = found, error
        if least < np.inf:
            break
    return best
