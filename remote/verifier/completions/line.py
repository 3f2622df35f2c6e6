"""A queue: answers that are being written at the same time, and requests that wait in order for one of them to end."""

from __future__ import annotations

import math
import time
from bisect import insort
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count

import anyio
from starlette.requests import ClientDisconnect

from remote.verifier.refusals import Overloaded

LOOK_SECONDS = 1.0
"""Seconds between checks that a waiting client is still connected."""
NEWEST = 0.2
"""Weight of the newest answer in the mean duration."""


@dataclass(eq=False)
class Place:
    """A place for an answer, or what waits for one."""

    number: int
    """Those with lower numbers arrived earlier."""
    sure: bool
    """Whether it may wait however many do."""
    held: bool = False
    begun: float = 0.0
    turn: anyio.Event = field(default_factory=anyio.Event)
    """Set when it is held."""


class Line:
    """At most `places` answers at the same time, and `longest` that wait. Belongs to the event loop.

    Fewer are written at the same time if there is no room for more, such as memory: an answer that finds none makes
    way, and the first in line tries again when another has ended, and after `LOOK_SECONDS`.

    `max_wait`: longest expected wait, in seconds, at which a request still joins the line, or None for any. As many
    requests as run at once may expect longer: a model that is slow for everyone causes no refusals by itself.
    """

    def __init__(self, places: int, longest: int, max_wait: float | None = None) -> None:
        self.places, self._longest, self._max_wait = places, longest, max_wait
        self.running = 0
        self._waiting = list[Place]()
        """In the order of arrival."""
        self._arrivals = count()
        self._seconds = 1.0
        """Recent mean duration of an answer."""

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def full(self) -> bool:
        """Whether a request that arrives now is refused."""
        if self._free:
            return False
        too_late = self._max_wait is not None and self.waiting >= self._at_once and self.expected > self._max_wait
        return too_late or self.waiting >= self._longest

    @property
    def expected(self) -> int:
        """Expected wait of a request that arrives now, in whole seconds; at least 1."""
        return max(1, math.ceil((len(self._waiting) + 1) * self._seconds / self._at_once))

    @property
    def _free(self) -> bool:
        """Whether an answer may begin at once. If one waits although there is a place, there is no room."""
        return not self._waiting and self.running < self.places

    @property
    def _at_once(self) -> int:
        """How many answers are written at the same time."""
        return max(1, self.running) if self._waiting else self.places

    @asynccontextmanager
    async def place(self, gone: Callable[[], Awaitable[bool]], *, sure: bool = False) -> AsyncIterator[Place]:
        """Hold a place while the block runs, after those ahead in the line. `sure`: it is not refused.

        Raises `Overloaded` immediately if too many wait, and `ClientDisconnect` if the client is `gone` before its
        turn.
        """
        place = await self._enter(gone, sure)
        try:
            yield place
        finally:
            if place.held:
                self._seconds += NEWEST * (time.monotonic() - place.begun - self._seconds)
            self._leave(place)

    async def make_way(self, place: Place, gone: Callable[[], Awaitable[bool]]) -> None:
        """Give a place up, because there is no room for its answer now, and wait for it again, in its old position.

        Raises what `place` raises, but refuses nobody who has waited already.
        """
        self._release(place)
        await self._wait(place, gone)

    def began(self) -> None:
        """Note that there was room for an answer, so there may be for the next one."""
        if self._waiting and self.running < self.places:
            self._hold(self._waiting.pop(0))

    async def _enter(self, gone: Callable[[], Awaitable[bool]], sure: bool = False) -> Place:
        place = Place(next(self._arrivals), sure)
        if self._free:
            self._hold(place)
        else:
            await self._wait(place, gone)
        return place

    async def _wait(self, place: Place, gone: Callable[[], Awaitable[bool]]) -> None:
        if self.full and not place.sure:
            raise Overloaded(
                f"{self.running} answers are being written and {len(self._waiting)} requests wait. "
                f"Try again in {self.expected} s.",
                self.expected,
            )
        place.sure, place.turn = True, anyio.Event()
        insort(self._waiting, place, key=lambda one: one.number)
        try:
            while not place.held:
                with anyio.move_on_after(LOOK_SECONDS):
                    await place.turn.wait()
                if not place.held and await gone():
                    raise ClientDisconnect
                if self._waiting[:1] == [place]:
                    self.began()
        except BaseException:
            if place in self._waiting:
                self._waiting.remove(place)
            self._leave(place)
            raise

    def _hold(self, place: Place) -> None:
        self.running += 1
        place.held, place.begun = True, time.monotonic()
        place.turn.set()

    def _release(self, place: Place) -> None:
        self.running -= place.held
        place.held = False

    def _leave(self, place: Place) -> None:
        """Give the place to the next in line, if any."""
        if place.held:
            self._release(place)
            self.began()
