"""How long an engine's forwards take, by sessions and rows, to estimate what one more row would cost.

Forwards are grouped into classes of similar numbers of sessions and rows. A class holds the mean of its recent
forwards, and is forgotten slowly while only other classes occur. A plane is fitted to the classes: seconds = fixed +
sessions * a + rows * b. Sums over all recent forwards could not separate the three, because for long periods all
forwards are alike. Rows do not all cost the same: 16 may take as long as 8. So for each number of sessions, the plane
is corrected to the means of its classes, and interpolated between their numbers of rows.

A row that seems too dear is not tried, so errors must not last. What has not run for long is forgotten in favour of a
low first guess, and more rows than ever ran together are assumed to be cheaper. No clock, no engine.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from drafter.pacer import Recent

MOST_WEIGHT, HALF_LIFE = 16, 512
"""Forwards beyond which the weight of a class no longer grows, and other forwards after which it is halved."""
KEPT = 0.97
"""About 30 forwards of a class count."""
FIRST_ROW = 0.05
"""First guess at the cost of a row, as a share of the smallest forward."""
FIRST_ROWS, FIRST_WEIGHT = 4, 0.2
"""The guess counts as a class with this many more rows, and this weight."""
BEYOND = 4
"""Up to this many times as many rows as ran together, more rows are assumed to cost half as much as on the plane, so
that they are tried. Only for one session alone: in company, a trial would cost the others time."""
STALE = 32
"""Forwards after which the plane is fitted again. The first forward of a class counts at once."""


class ForwardTimes:
    def __init__(self) -> None:
        self._classes: dict[tuple[int, int], Recent] = {}
        self._seen: dict[tuple[int, int], int] = {}
        """How many forwards there were when each class was seen last."""
        self._count = 0
        self._last = (0, 0, 0.0)
        self._plane = np.zeros(3)
        self._bends: dict[int, NDArray[np.float64]] = {}
        """For each class of sessions: rows, and their seconds divided by those on the plane, (2, n)."""
        self._told: dict[int, tuple[float, NDArray[np.float64]]] = {}
        """What `seconds` answered since the plane was fitted: by the further rows, for these sessions."""
        self._since = STALE
        self.largest = 0
        """Rows of the largest forward so far."""

    @property
    def known(self) -> bool:
        """Whether any forward was recorded."""
        return bool(self._classes)

    def add(self, sessions: int, rows: int, seconds: float) -> None:
        """Record a forward with these totals of sessions and rows. Each session may report the same forward."""
        told = sessions, rows, seconds
        if told != self._last:
            self._last = told
            self.largest = max(self.largest, rows)
            self._count, size = self._count + 1, (sessions.bit_length(), rows.bit_length())
            known, self._seen[size] = self._classes.setdefault(size, Recent(KEPT)), self._count
            self._since += 1 if known.count else STALE
            known.add(seconds, sessions, rows)

    def seconds(self, sessions: float, further: int) -> NDArray[np.float64]:
        """Expected seconds of forwards with a row for each session and 0, 1, ... `further` rows, rising.

        Shape (further + 1,), read-only. More rows never take less.
        """
        fixed, each, row = self._laid().tolist()
        told = self._told.get(further)
        if told is None or told[0] != sessions:
            rows = sessions + np.arange(further + 1.0)
            flat = fixed + sessions * each + rows * row
            if (bends := self._bends.get(round(sessions).bit_length())) is not None:
                flat *= np.interp(rows, *bends)
            found = np.minimum.accumulate(flat[::-1])[::-1]
            found.flags.writeable = False
            told = self._told[further] = sessions, found
        return told[1]

    @property
    def row(self) -> float:
        """Seconds of one more row."""
        return float(self._laid()[2])

    def _laid(self) -> NDArray[np.float64]:
        """Fit the plane: the seconds of a forward, a session and a row. Errors are relative to the class's mean."""
        if self._since < STALE or not self._classes:
            return self._plane
        self._since = 0
        self._told.clear()
        known = list(self._classes.values())
        least = min(known, key=lambda one: one.seconds)
        # Until there have been forwards of other sizes, the first guess decides.
        sessions, rows = least.amounts
        first = [sessions, rows + FIRST_ROWS, least.seconds * (1 + FIRST_ROW * FIRST_ROWS), FIRST_WEIGHT]
        points = np.array([[*one.amounts, one.seconds, min(one.count, MOST_WEIGHT)] for one in known] + [first])
        points[:-1, 3] *= 0.5 ** ((self._count - np.array([self._seen[size] for size in self._classes])) / HALF_LIFE)
        weights = np.sqrt(points[:, 3]) / points[:, 2]
        sides = np.column_stack([np.ones(len(points)), points[:, :2]]) * weights[:, None]
        self._plane = _least_squares(sides, points[:, 2] * weights)
        factors = points[:, 2] / (np.insert(points[:, :2], 0, 1, axis=1) @ self._plane)
        factors = (points[:, 3] * factors + FIRST_WEIGHT) / (points[:, 3] + FIRST_WEIGHT)
        for size in {size for size, _ in self._classes}:
            own = [at for at, (other, _) in enumerate(self._classes) if other == size]
            own.sort(key=lambda at: points[at, 1])
            self._bends[size] = np.stack((points[own, 1], factors[own]))
        if 1 in self._bends:
            rows, factor = self._bends[1][:, -1]
            last, beyond = (self._plane @ (1.0, 1.0, count) for count in (rows, BEYOND * rows))
            factor = (last * factor + (beyond - last) / 2) / beyond
            self._bends[1] = np.column_stack((self._bends[1], (BEYOND * rows, factor)))
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
