"""Learns how long rounds take, so that draft trees get the size that pays off most.

The time of a round has three parts: its draft, with one drafter call per level; the verifier's own time, which grows
with the nodes that were sent; and the rest, mostly the line, which does not. The caller measures all seconds. No clock,
no trees, no network.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from drafter.pacer import PAUSE, Recent

KEPT = 0.97
"""About 30 rounds count."""
WAITING = 0.25
"""Weight of the newest wait. Lines change faster than machines do."""
LONGEST_WAIT = 5.0
"""A wait counts as at most this many seconds."""
FIRST_NODE = 0.05
"""First guess at the time of a node, as a share of a level's, used while all rounds have had the same size."""
FIRST_ROW, ROW_WEIGHT = 0.3, 16.0
"""First guess at the time of a row as a share of a call's, and its weight: that of one draft with 4 further rows."""
FIRST_WEIGHT = 64.0
"""Weight of that guess: that of one round whose size is 8 nodes away from the mean."""


@dataclass(frozen=True)
class Cost:
    """The time of a round, in seconds."""

    round: float
    """A round with no draft and only the root to verify: the line, the forward, the memory."""
    level: float
    """One drafter call, including the one for the root."""
    node: float
    """Time that each node adds to the verdict."""
    row: float = 0.0
    """Time that each node after the first adds to a drafter call."""

    def rates(self, chances: NDArray[np.float64], levels: int, rows: int = 0) -> NDArray[np.float64]:
        """Tokens per second with the first 0, 1, 2, ... of the nodes: (n + 1,).

        `chances`: the probability that each node is accepted, (n,). `levels`: drafter calls that they took, with `rows`
        nodes after the first of each. The bonus token counts.
        """
        gained = 1.0 + np.append(0.0, np.cumsum(chances))
        draft = levels * self.level + rows * self.row
        rates: NDArray[np.float64] = gained / (self.round + draft + np.arange(len(gained)) * self.node)
        return rates


class CostMeter:
    """Learns how long rounds take with one verifier over one line."""

    def __init__(self, first: Cost | None = None) -> None:
        self.first = first
        """The cost until a draft and its verdict have been timed."""
        self._levels = Recent()
        # Weighted sums over drafts of c^2, c*r, r^2, c*s and r*s, for c calls with r further rows that take s seconds.
        self._rows = np.zeros(5)
        self._wait: float | None = None
        # Weighted sums over rounds of 1, n, n^2, s and n*s, for n nodes and s seconds.
        self._sums = np.zeros(5)

    def drafted(self, levels: int, seconds: float, rows: int = 0) -> None:
        """Record the number of calls and the seconds of a draft.

        `rows`: nodes after the first of each call, if their time counts.
        """
        if levels >= 1:
            if self._levels.count:
                seconds = min(seconds, PAUSE * (levels * self._levels.seconds + rows * self._call()[1]))
            self._levels.add(seconds / levels)
            new = levels**2, levels * rows, rows**2, levels * seconds, rows * seconds
            self._rows = self._levels.kept * self._rows + new

    def judged(self, nodes: int, seconds: float) -> None:
        """Record the verifier's seconds for a draft of this many nodes.

        Prompt tokens that ran with it count as nodes.
        """
        if self._sums[0] and self._levels.count:
            base, node = self._verifier()
            seconds = min(seconds, PAUSE * (base + nodes * node))
        self._sums = KEPT * self._sums + (1.0, nodes, nodes**2, seconds, nodes * seconds)

    def waited(self, seconds: float) -> None:
        """Record the seconds from one draft to the next, without the verifier's own time."""
        seconds = min(seconds, LONGEST_WAIT)
        self._wait = seconds if self._wait is None else self._wait + WAITING * (seconds - self._wait)

    @property
    def cost(self) -> Cost | None:
        """The current cost of a round, or None before anything is known."""
        level, row = self._call()
        if not self._sums[0] or not level:
            return replace(self.first, level=level, row=row) if self.first is not None and level else self.first
        base, node = self._verifier()
        if self._wait is not None:
            base += self._wait
        # The first guess covers the whole round. Overestimating is better than ignoring the line.
        elif self.first is not None:
            base += self.first.round
        return Cost(base, level, node, row)

    def _call(self) -> tuple[float, float]:
        """The seconds of a drafter call with one row, and of each further row."""
        calls, both, rows, seconds, products = self._rows.tolist()
        mean = self._levels.seconds
        if not rows:
            return mean, 0.0
        # Least squares, with a first guess of the row as a share of the call.
        weight = ROW_WEIGHT
        calls, both, rows = calls + weight * FIRST_ROW**2, both - weight * FIRST_ROW, rows + weight
        level, row = np.linalg.solve([[calls, both], [both, rows]], [seconds, products]).tolist()
        return (level, row) if min(level, row) > 0 else (mean, 0.0)

    def _verifier(self) -> tuple[float, float]:
        """The verifier's seconds for the root, and for each node."""
        count, nodes, squares, seconds, products = self._sums.tolist()
        mean = nodes / count
        together = products - mean * seconds + FIRST_WEIGHT * FIRST_NODE * self._levels.seconds
        slope = together / (squares - mean * nodes + FIRST_WEIGHT)
        node = min(max(slope, 0.0), seconds / nodes if nodes else np.inf)
        return seconds / count - node * mean, node
