"""A clock for tests, in which a minute of waiting takes a second."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

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
