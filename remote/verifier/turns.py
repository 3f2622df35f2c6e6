"""Turns: one engine, many sessions, and a short time for each of them.

A turn is one call into the engine: a chunk of a prompt, a round, one round of a stream, or a frame of memory. The
engine's thread runs one at a time. Waiting sessions are served in a circle, however many calls each of them has.
"""

from __future__ import annotations

import inspect
import time
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import nullcontext
from typing import TypeVar

import anyio
from anyio import to_thread
from starlette.requests import ClientDisconnect

from remote.protocol import Frame
from remote.verifier.learning.quiet import Quiet
from remote.verifier.refusals import Overloaded
from remote.verifier.sessions import Answer

T = TypeVar("T")
END = object()


class Turns:
    """Belongs to the event loop. At most `max_waiting` answers wait for their first frame; others are refused."""

    def __init__(self, max_waiting: int, quiet: Quiet | None = None) -> None:
        """`quiet`: is told when the engine is wanted."""
        self.max_waiting = max_waiting
        self._quiet = quiet
        self.waiting = 0
        """Answers without a first frame."""
        self.seconds = 0.0
        """Seconds that the engine has worked."""
        self._taken = False
        self._queues: OrderedDict[str, deque[anyio.Event]] = OrderedDict()
        self._thread = anyio.CapacityLimiter(1)

    async def take(self, name: str, call: Callable[[], T]) -> T:
        """Run `call` on the engine's thread, in the turn of the session `name`, and return its result.

        A call that has begun runs to its end, even if nobody waits for it any more.
        """
        with nullcontext() if self._quiet is None else self._quiet.kept_waiting():
            await self._wait(name)
            try:
                return await to_thread.run_sync(self._timed, call, limiter=self._thread)
            finally:
                self._pass_on()

    async def first(self, name: str, frames: Answer, gone: Callable[[], Awaitable[bool]]) -> Frame | None:
        """The first frame, after as many turns as it takes. None if there is none.

        Raises `Overloaded` if too many wait already, `ClientDisconnect` if the client is `gone` after one of the turns,
        and whatever `frames` raises.
        """
        if self.waiting >= self.max_waiting:
            raise Overloaded(f"{self.waiting} rounds are waiting already. Try again in a moment.")
        self.waiting += 1
        try:
            while (frame := await self.take(name, lambda: next(frames, END))) is None:
                if await gone():
                    raise ClientDisconnect
            return None if frame is END else frame  # type: ignore[return-value]
        except (ClientDisconnect, anyio.get_cancelled_exc_class()):
            await self.close(name, frames)
            raise
        finally:
            self.waiting -= 1

    async def rest(self, name: str, first: Frame | None, frames: Answer) -> AsyncGenerator[Frame, None]:
        """The first frame, then the others, with a turn for each. The caller closes `frames` at the end."""
        frame: object = first
        while frame is not END:
            if frame is not None:
                yield frame  # type: ignore[misc]
            frame = await self.take(name, lambda: next(frames, END))

    async def close(self, name: str, frames: Answer) -> None:
        """Close the source of the frames, even if the caller was cancelled."""
        if inspect.getgeneratorstate(frames) != inspect.GEN_CLOSED:
            await self.last(name, frames.close)

    async def last(self, name: str, call: Callable[[], object]) -> None:
        """Take a turn even if the caller was cancelled."""
        with anyio.CancelScope(shield=True):
            await self.take(name, call)

    def _timed(self, call: Callable[[], T]) -> T:
        start = time.monotonic()
        try:
            return call()
        finally:
            self.seconds += time.monotonic() - start

    async def _wait(self, name: str) -> None:
        if not self._taken:
            self._taken = True
            return
        ticket = anyio.Event()
        self._queues.setdefault(name, deque()).append(ticket)
        try:
            await ticket.wait()
        except BaseException:
            if ticket.is_set():
                self._pass_on()
            else:
                self._withdraw(name, ticket)
            raise

    def _withdraw(self, name: str, ticket: anyio.Event) -> None:
        self._queues[name].remove(ticket)
        if not self._queues[name]:
            del self._queues[name]

    def _pass_on(self) -> None:
        if not self._queues:
            self._taken = False
            return
        name, tickets = self._queues.popitem(last=False)
        ticket = tickets.popleft()
        if tickets:
            self._queues[name] = tickets  # Behind all others.
        ticket.set()
