"""The clock that deadlines, pauses and measurements go by: one seam, so that tests need not wait as people do."""

from __future__ import annotations

import asyncio
import time
from contextlib import AbstractAsyncContextManager


class Clock:
    """The machine's own clock. A test gives one that runs faster."""

    def now(self) -> float:
        """Seconds since some moment; never goes back."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def within(self, seconds: float) -> AbstractAsyncContextManager[object]:
        """Raises `TimeoutError` where the block takes longer."""
        return asyncio.timeout(seconds)


CLOCK = Clock()
