"""A clock for tests: what a person would wait a minute for takes a second."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from remote.clock import Clock


class FastClock(Clock):
    """From `hurry` on it runs so many times as fast as the machine's: a minute of patience takes a second."""

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
