"""Chooses how many threads compute a forward: the number measured to be fastest, measured again when speed falls.

More threads than free cores slow it down: at every barrier all threads wait for one that is not running. Next to one
busy process, two threads on two cores take 30 ms for a step of SmolLM2-135M, where one thread takes 13.
"""

from __future__ import annotations

import os

MOST_ROWS = 16
"""Forwards with more rows, which read a prompt, are not compared: their times differ too much."""
STEPS = 3
"""Forwards of a trial. The first one starts threads, and does not count."""
NEWEST = 0.25
"""Weight of the newest time in the mean for its number of rows."""
SLOW, HOPELESS = 1.6, 4.0
"""A forward is slow if it takes this many times as long as usual. A trial ends immediately at the second factor."""
SLOW_STEPS = 3
"""Slow forwards in a row after which other numbers are tried immediately."""
BETTER = 0.95
"""A trial wins if its forwards take this share of the time or less."""
SOONEST, LATEST = 64, 4096
"""Forwards between two trials at normal speed: twice as many after each trial that does not win, and immediately the
most where all cores are in use, because a slow forward begins a trial anyway."""


def spin_briefly() -> None:
    """Let OpenMP's threads wait at a barrier for microseconds, not milliseconds, before they sleep.

    Call this before PyTorch or llama.cpp is imported; existing variables take precedence. With 100,000 spins, threads
    of an idle model take the cores from another one on the same machine: chains of 4 by a 0.5B for a 1.5B gave 13
    tokens a second, where 1,000 spins gave 18. Alone on two cores, a step of SmolLM2-135M takes as long with both, or
    up to 9 % less with 100,000, from day to day.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")


class Threads:
    """Chooses the number of threads of an engine, by the times of its forwards."""

    def __init__(self, most: int) -> None:
        """`most`: cores that may be used."""
        self.count = most
        """Threads of the next forward."""
        self._others = [count for count in _halves(most) if count != most]
        """Thread counts still to be tried, the next one first."""
        self._counts = _halves(most)
        self._best = most
        self._usual: dict[int, dict[int, float]] = {count: {} for count in self._counts}
        """Seconds of forwards with each number of threads, by number of rows."""
        self._trial: list[float] = []
        self._slow = self._since = 0
        self._pause = SOONEST

    @property
    def trying(self) -> bool:
        """Whether there are numbers of threads that were not tried recently."""
        return bool(self._others) or self.count != self._best

    def ran(self, rows: int, seconds: float) -> None:
        """Record the time of a forward with this many rows, and choose the threads of the next one."""
        if rows > MOST_ROWS or len(self._counts) == 1:
            return
        if self.count != self._best:
            self._tried(rows, seconds)
            return
        usual = self._usual[self._best].get(rows)
        self._slow = self._slow + 1 if usual is not None and seconds > SLOW * usual else 0
        if self._slow >= SLOW_STEPS:
            self._usual[self._best] = {rows: seconds}
            self._begin()
            return
        newer = seconds if usual is None else usual + NEWEST * (min(seconds, SLOW * usual) - usual)
        self._usual[self._best][rows] = newer
        self._since += 1
        if self._since >= (self._pause if not self._others else STEPS):
            self._begin()

    def _begin(self) -> None:
        """Try another number from the next forward on."""
        self._others = self._others or [count for count in self._counts if count != self._best]
        self.count = self._others.pop(0)
        self._trial, self._slow, self._since = [], 0, 0

    def _tried(self, rows: int, seconds: float) -> None:
        usual = self._usual[self._best].get(rows)
        if usual is None:  # There is nothing to compare it with, so it is tried again with other rows.
            self._end(won=False)
            return
        self._trial.append(seconds / usual)
        if self._trial[-1] > (SLOW if len(self._trial) > 1 else HOPELESS):
            self._end(won=False)
        elif len(self._trial) >= STEPS:
            self._usual[self.count][rows] = seconds
            self._end(won=sum(self._trial[1:]) / (len(self._trial) - 1) <= BETTER)

    def _end(self, *, won: bool) -> None:
        if won:
            self._best, self._pause = self.count, SOONEST
        elif not self._others:
            self._pause = LATEST if self._best == self._counts[0] else min(2 * self._pause, LATEST)
        self.count = self._best


def _halves(most: int) -> list[int]:
    """`most`, and half as many again and again, down to one."""
    counts = [most]
    while counts[-1] > 1:
        counts.append(counts[-1] // 2)
    return counts
