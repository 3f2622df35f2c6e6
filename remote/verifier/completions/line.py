"""A waiting line: answers that are being written at the same time, and those that wait for one of them to end, in
order."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
from starlette.requests import ClientDisconnect

from remote.verifier.refusals import Overloaded

LOOK_SECONDS = 1.0
"""Seconds between checks that a waiting client is still connected."""
NEWEST = 0.2
"""Weight of the newest answer in the mean duration."""


class Line:
    """At most `places` answers at the same time, and `longest` that wait. Belongs to the event loop.

    `max_wait`: longest expected wait, in seconds, at which a request still joins the line, or None for any. As many
    requests as there are places may expect longer: a model that is slow for everybody refuses nobody for that alone.
    """

    def __init__(self, places: int, longest: int, max_wait: float | None = None) -> None:
        self.places, self._longest, self._max_wait = places, longest, max_wait
        self.running = 0
        self._waiting = deque[anyio.Event]()
        self._seconds = 1.0
        """Recent mean duration of an answer."""

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def full(self) -> bool:
        """Whether a request that arrives now is refused."""
        if self.running < self.places:
            return False
        too_late = self._max_wait is not None and self.waiting >= self.places and self.expected > self._max_wait
        return too_late or self.waiting >= self._longest

    @property
    def expected(self) -> int:
        """Expected wait of a request that arrives now, in whole seconds; at least 1."""
        return max(1, math.ceil((len(self._waiting) + 1) * self._seconds / self.places))

    @asynccontextmanager
    async def place(self, gone: Callable[[], Awaitable[bool]]) -> AsyncIterator[None]:
        """Hold a place while the block runs, after those ahead in the line.

        Raises `Overloaded` immediately if too many wait, and `ClientDisconnect` if the client is `gone` before its
        turn.
        """
        await self._enter(gone)
        begun = time.monotonic()
        try:
            yield
        finally:
            self._seconds += NEWEST * (time.monotonic() - begun - self._seconds)
            self._leave()

    async def _enter(self, gone: Callable[[], Awaitable[bool]]) -> None:
        if self.running < self.places:  # Then nobody waits.
            self.running += 1
            return
        if self.full:
            raise Overloaded(
                f"{self.running} answers are being written and {len(self._waiting)} requests wait. "
                f"Try again in {self.expected} s.",
                self.expected,
            )
        turn = anyio.Event()
        self._waiting.append(turn)
        try:
            while not turn.is_set():
                with anyio.move_on_after(LOOK_SECONDS):
                    await turn.wait()
                if not turn.is_set() and await gone():
                    raise ClientDisconnect
        except BaseException:
            if turn.is_set():
                self._leave()
            else:
                self._waiting.remove(turn)
            raise

    def _leave(self) -> None:
        """Give the place to the next in line, if any."""
        if self._waiting:
            self._waiting.popleft().set()
        else:
            self.running -= 1
