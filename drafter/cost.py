"""What a round takes, learnt from rounds: by it a draft tree is exactly as large as pays.

A round takes the time of its draft, one drafter call a level, and the time until its verdict, which grows with the
nodes that went up. Seconds that the caller measured come in; knows no clock, no trees and no network.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SMOOTHING = 0.1
"""Weight of the newest call's seconds."""
KEPT = 0.97
"""Share of its weight that a round keeps at the next one: some 30 rounds count."""
PAUSE = 3.0
"""A round that took this many times what was expected counts as no more: the machine was elsewhere."""
FIRST_NODE = 0.05
"""What a node adds, as a share of a level, while all rounds were of one size."""
FIRST_WEIGHT = 64.0
"""Of that guess: as much as a round has whose size is 8 nodes off the mean."""


@dataclass(frozen=True)
class Cost:
    """What a round takes, in seconds."""

    round: float
    """With nothing drafted and nothing but the root to verify: the line, the forward, the memory."""
    level: float
    """A drafter call, that of the root too."""
    node: float
    """What a node adds to the verdict's time."""

    def rates(self, chances: NDArray[np.float64], levels: int) -> NDArray[np.float64]:
        """Tokens a second with none, one, two, ... of the nodes (n,), which are accepted with these chances: (n + 1,).

        `levels` is how many calls they took to draft. The bonus token counts.
        """
        gained = 1.0 + np.append(0.0, np.cumsum(chances))
        rates: NDArray[np.float64] = gained / (self.round + levels * self.level + np.arange(len(gained)) * self.node)
        return rates


class CostMeter:
    """Learns what rounds take, from rounds of one verifier over one line."""

    def __init__(self) -> None:
        self._level = 0.0
        # Weighted sums over rounds: of 1, n, n^2, s and n*s for n nodes and s seconds.
        self._sums = np.zeros(5)

    def drafted(self, levels: int, seconds: float) -> None:
        """A draft took so many calls and so long."""
        if levels < 1:
            return
        taken = seconds / levels
        taken = min(taken, PAUSE * self._level) if self._level else taken
        self._level += (SMOOTHING if self._level else 1.0) * (taken - self._level)

    def judged(self, nodes: int, seconds: float) -> None:
        """A draft of so many nodes had its verdict after so long."""
        if (cost := self.cost) is not None:
            seconds = min(seconds, PAUSE * (cost.round + nodes * cost.node))
        self._sums = KEPT * self._sums + (1.0, nodes, nodes**2, seconds, nodes * seconds)

    @property
    def cost(self) -> Cost | None:
        """None before the first draft and the first verdict."""
        count, nodes, squares, seconds, products = self._sums.tolist()
        if not count or not self._level:
            return None
        mean = nodes / count
        together = products - mean * seconds + FIRST_WEIGHT * FIRST_NODE * self._level
        slope = together / (squares - mean * nodes + FIRST_WEIGHT)
        node = min(max(slope, 0.0), seconds / nodes if nodes else np.inf)
        return Cost(seconds / count - node * mean, self._level, node)
