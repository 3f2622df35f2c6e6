"""Clocks for tests: one in which a minute of waiting takes a second, and one that the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

from remote.clock import Clock


class FastClock(Clock):
    """Runs at the speed of the machine's clock; after `hurry(n)`, n times as fast."""

    def __init__(self) -> None:
        self._times, self._since, self._read = 1.0, super().now(), 0.0

    def hurry(self, times: float) -> None:
        self._read, self._since = self.now(), super().now()
        self._times = times

    def now(self) -> float:
        return self._read + (super().now() - self._since) * self._times

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds / self._times)

    def within(self, seconds: float) -> AbstractAsyncContextManager[object]:
        return super().within(seconds / self._times)


class HeldClock(Clock):
    """Stands still until `advance`, so that no deadline ends because the machine is busy."""

    def __init__(self) -> None:
        self._now = 0.0
        self._ends: dict[asyncio.Timeout, float] = {}

    def advance(self, seconds: float) -> None:
        self._now += seconds
        for timeout, end in self._ends.items():
            if end <= self._now:
                timeout.reschedule(asyncio.get_running_loop().time())

    def now(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with self.within(seconds):
                await asyncio.Event().wait()

    @asynccontextmanager
    async def within(self, seconds: float) -> AsyncIterator[object]:
        async with asyncio.timeout(None if seconds > 0 else 0) as timeout:
            self._ends[timeout] = self._now + seconds
            try:
                yield timeout
            finally:
                del self._ends[timeout]
