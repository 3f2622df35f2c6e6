"""Outages of the line in the gateway's benchmark."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass

from tests.support.fault_proxy import Exchange, Fault, FaultProxy
from tests.support.faults import LOGIN, hushed, late, page, refused, silence

DELAY_SECONDS = (0.02, 0.12)
"""What the line takes for each request for tokens."""
OUTAGE_SECONDS = (0.05, 2.0)
KINDS: dict[str, Fault] = {
    "refused": refused,
    "portal": LOGIN,
    "502": page("502 Bad Gateway", "text/html", b"Bad gateway"),
    "silent": silence,
    "half-open": hushed,
}
SILENT = ("silent", "half-open")
"""Outages that break no connection."""


@dataclass
class Outage:
    """One outage of the line, which begins in the middle of the answers and ends by itself."""

    proxy: FaultProxy
    kind: str
    seconds: float
    characters: int
    """It begins when all clients together have so many characters."""
    begun: float | None = None
    striking: asyncio.Task[None] | None = None

    def plan(self, rng: random.Random) -> None:
        """Delay each request for tokens."""

        async def pass_on(exchange: Exchange) -> None:
            self.proxy.at(0, pass_on)
            await late(rng.uniform(*DELAY_SECONDS))(exchange)

        self.proxy.at(0, pass_on)

    def heard(self, characters: int) -> None:
        """Take how many characters the clients have. It may begin now."""
        if self.begun is None and characters >= self.characters:
            self.begun = time.perf_counter()
            self.striking = asyncio.create_task(self._strike())

    async def _strike(self) -> None:
        """End all connections, or let them fall silent, until the outage is over."""
        self.proxy.line = KINDS[self.kind]
        if self.kind in SILENT:
            self.proxy.hush()
        else:
            await self.proxy.refuse()
            if self.kind != "refused":
                await self.proxy.listen()
        await asyncio.sleep(self.seconds)
        await self.proxy.heal()

    async def end(self) -> None:
        """Have the line work again, whether it has struck or not."""
        if self.striking is not None:
            await self.striking
        self.proxy.plan.clear()
        await self.proxy.heal()
