"""Whether the engine is wanted, and the process that has to stand back for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from remote.verifier.learning.process import StandingBack


class Quiet:
    """Knows since when nobody has wanted the engine. Threads share it.

    `pausing`: the process is stopped while somebody wants the engine.
    """

    def __init__(self, *, pausing: bool = True) -> None:
        self._pausing = pausing
        self._lock = threading.Lock()
        self._wanted = 0
        self.wanted_before = False
        """Somebody has wanted the engine since the start."""
        self._since = time.monotonic()
        self._process: StandingBack | None = None

    @contextmanager
    def kept_waiting(self) -> Iterator[None]:
        """While the block runs, somebody waits for the engine, or has it."""
        with self._lock:
            self._wanted += 1
            if self._process is not None and self._pausing:
                self._process.pause()
        try:
            yield
        finally:
            with self._lock:
                self._wanted -= 1
                self.wanted_before = True
                self._since = time.monotonic()

    def lasted(self, seconds: float) -> bool:
        """Whether nobody has wanted it for so long."""
        return not self._wanted and time.monotonic() - self._since >= seconds

    def hold(self, process: StandingBack | None) -> None:
        """From now on, this process stands back; None: there is none."""
        with self._lock:
            self._process = process

    def let_go_on(self, seconds: float) -> None:
        """Let the process run if it has been quiet for so long."""
        with self._lock:
            if self._process is not None and (not self._pausing or self.lasted(seconds)):
                self._process.go_on()
