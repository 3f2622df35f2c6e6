"""What a round takes, learnt from rounds: by it a draft tree is exactly as large as pays.

A round takes the time of its draft, one drafter call a level; the verifier's own, which grows with the nodes that went
up; and all the rest, the line's above all, which does not. Seconds that the caller measured come in; knows no clock, no
trees and no network.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

SMOOTHING = 0.1
"""Weight of the newest call's seconds."""
WAITING = 0.25
"""Weight of the newest wait: lines change faster than machines do."""
KEPT = 0.97
"""Share of its weight that a round keeps at the next one: some 30 rounds count."""
PAUSE = 3.0
"""A draft or a verdict that took this many times what was expected counts as no more: the machine was elsewhere."""
LONGEST_WAIT = 5.0
"""Seconds that a wait counts as at most."""
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

    def __init__(self, first: Cost | None = None) -> None:
        self.first = first
        """What `cost` says until a draft and its verdict are known."""
        self._level = 0.0
        self._wait: float | None = None
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
        """The verifier took so long for a draft of so many nodes; a prompt's tokens, run with it, count as nodes."""
        if self._sums[0] and self._level:
            base, node = self._verifier()
            seconds = min(seconds, PAUSE * (base + nodes * node))
        self._sums = KEPT * self._sums + (1.0, nodes, nodes**2, seconds, nodes * seconds)

    def waited(self, seconds: float) -> None:
        """From one draft to the next it took so long beside the verifier's own time."""
        seconds = min(seconds, LONGEST_WAIT)
        self._wait = seconds if self._wait is None else self._wait + WAITING * (seconds - self._wait)

    @property
    def cost(self) -> Cost | None:
        """As rounds have been lately."""
        if not self._sums[0] or not self._level:
            return replace(self.first, level=self._level) if self.first is not None and self._level else self.first
        base, node = self._verifier()
        if self._wait is not None:
            base += self._wait
        elif self.first is not None:  # It is for the whole round, but too much is better than no line at all.
            base += self.first.round
        return Cost(base, self._level, node)

    def _verifier(self) -> tuple[float, float]:
        """Its seconds for the root, and for each node."""
        count, nodes, squares, seconds, products = self._sums.tolist()
        mean = nodes / count
        together = products - mean * seconds + FIRST_WEIGHT * FIRST_NODE * self._level
        slope = together / (squares - mean * nodes + FIRST_WEIGHT)
        node = min(max(slope, 0.0), seconds / nodes if nodes else np.inf)
        return seconds / count - node * mean, node
