"""How often a running answer is drawn over SSH or Mosh, where each frame crosses a line that may be slow."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping

from app.ssh import over_ssh

BYTES_PER_SECOND = 4_000
"""Share of the line that a running answer may use. A phone at the edge of its cell has 5 to 10 kB/s in all."""

LONGEST_PAUSE = 0.5
"""Seconds. In a longer one, so many lines come that the screen costs less anew than scrolled, and that every time."""


class LinePace:
    """Says when the next frame is due: once the line has had time for the one before.

    `sent`: the bytes that were sent to the terminal so far.
    """

    def __init__(self, sent: Callable[[], int], environment: Mapping[str, str] = os.environ) -> None:
        self._sent = sent
        self._slow = over_ssh(environment)
        self._before, self._began = 0, 0.0

    @property
    def due(self) -> bool:
        cost = self._sent() - self._before if self._slow else 0
        return time.monotonic() >= self._began + min(LONGEST_PAUSE, cost / BYTES_PER_SECOND)

    def begin(self) -> None:
        """A frame is drawn now."""
        self._before, self._began = self._sent(), time.monotonic()
