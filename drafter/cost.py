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
    """What each node adds to the time of the verdict."""

    def rates(self, chances: NDArray[np.float64], levels: int) -> NDArray[np.float64]:
        """Tokens per second with the first 0, 1, 2, ... of the nodes: (n + 1,).

        `chances`: the probability that each node is accepted, (n,). `levels`: drafter calls that they took. The bonus
        token counts.
        """
        gained = 1.0 + np.append(0.0, np.cumsum(chances))
        rates: NDArray[np.float64] = gained / (self.round + levels * self.level + np.arange(len(gained)) * self.node)
        return rates


class CostMeter:
    """Learns how long rounds take with one verifier over one line."""

    def __init__(self, first: Cost | None = None) -> None:
        self.first = first
        """The cost until a draft and its verdict have been timed."""
        self._levels = Recent()
        self._wait: float | None = None
        # Weighted sums over rounds of 1, n, n^2, s and n*s, for n nodes and s seconds.
        self._sums = np.zeros(5)

    def drafted(self, levels: int, seconds: float) -> None:
        """Record the number of calls and the seconds of a draft."""
        if levels >= 1:
            self._levels.add(seconds / levels)

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
        level = self._levels.seconds
        if not self._sums[0] or not level:
            return replace(self.first, level=level) if self.first is not None and level else self.first
        base, node = self._verifier()
        if self._wait is not None:
            base += self._wait
        # The first guess covers the whole round. Overestimating is better than ignoring the line.
        elif self.first is not None:
            base += self.first.round
        return Cost(base, level, node)

    def _verifier(self) -> tuple[float, float]:
        """The verifier's seconds for the root, and for each node."""
        count, nodes, squares, seconds, products = self._sums.tolist()
        mean = nodes / count
        together = products - mean * seconds + FIRST_WEIGHT * FIRST_NODE * self._levels.seconds
        slope = together / (squares - mean * nodes + FIRST_WEIGHT)
        node = min(max(slope, 0.0), seconds / nodes if nodes else np.inf)
        return seconds / count - node * mean, node
