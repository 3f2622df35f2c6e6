"""The clock for deadlines, pauses and measurements. Tests replace it, so they do not have to wait."""

from __future__ import annotations

import asyncio
import time
from contextlib import AbstractAsyncContextManager


class Clock:
    """The machine's own clock. A test uses one that runs faster."""

    def now(self) -> float:
        """Seconds since some fixed moment; never decreases."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def within(self, seconds: float) -> AbstractAsyncContextManager[object]:
        """Raises `TimeoutError` if the block takes longer."""
        return asyncio.timeout(seconds)


CLOCK = Clock()
