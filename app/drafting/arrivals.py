"""What follows a verdict in the background: memory of the new tokens, and what else the target might have said."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from drafter.learning.distributions import Distributions
from models.memory import MalformedMemory
from remote import HostedStream, MemoryStream, RemoteError
from remote.protocol import Memory

STREAMS = 2
"""Most streams of memory at once. A second one opens a second connection, because the first is still in use."""


class _Coming(NamedTuple):
    """A stream that is being read."""

    end: int
    """The position before which its memory ends."""
    complete: asyncio.Event
    """Its memory has arrived. More than memory may still be in transit."""


class Arrivals:
    """Reads the streams of one conversation. `remember` takes memory and returns how many tokens have theirs now."""

    def __init__(self, remember: Callable[[Memory], Awaitable[int]]) -> None:
        self._remember = remember
        self._streams: dict[asyncio.Task[None], _Coming] = {}
        self._heard: list[Distributions] = []
        """What the target might have said since `begin`."""
        self._keep: Callable[[Distributions], None] | None = None
        """Keeps it, after the answer."""

    def begin(self) -> None:
        self._heard, self._keep = [], None

    @property
    def ends(self) -> list[int]:
        """For each stream in transit, the position before which its memory ends."""
        return [coming.end for task, coming in self._streams.items() if not task.done()]

    @property
    def has_room(self) -> bool:
        """Whether another stream may be requested while these are in transit."""
        return len(self.ends) < STREAMS

    @property
    def complete(self) -> bool:
        return all(coming.complete.is_set() for coming in self._streams.values())

    def listen(self, stream: MemoryStream | HostedStream, end: int) -> None:
        """Read a stream in the background, whose memory ends before position `end`."""
        coming = _Coming(end, asyncio.Event())
        task = asyncio.create_task(self._read(stream, coming))
        self._streams[task] = coming
        task.add_done_callback(self._over)

    def hear_of(self, told: Distributions) -> None:
        self._heard.append(told)
        if self._keep is not None:
            self._keep(Distributions.of(self._heard))

    def keep(self, keep: Callable[[Distributions], None]) -> None:
        """Call `keep` with what the target might have said in the answer, and again when more arrives.

        The last round's part arrives after the answer is complete. The next answer ends it.
        """
        self._keep = keep
        keep(Distributions.of(self._heard))

    async def hear(self, seconds: float) -> bool:
        """Wait for the memory of all streams, at most this long. Returns whether all of it has arrived.

        What the target might have said arrives after it, and no draft waits for that.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                for coming in list(self._streams.values()):
                    await coming.complete.wait()
        return self.complete

    async def hear_out(self, seconds: float) -> bool:
        """Wait for everything in transit, at most this long. Returns whether all memory has arrived."""
        if self._streams:
            await asyncio.wait(self._streams, timeout=seconds)
        return self.complete

    async def stop(self) -> None:
        streams = list(self._streams)
        for task in streams:
            task.cancel()
        if streams:
            await asyncio.wait(streams)

    def _over(self, task: asyncio.Task[None]) -> None:
        self._streams.pop(task).complete.set()

    async def _read(self, stream: MemoryStream | HostedStream, coming: _Coming) -> None:
        try:
            async for frame in stream:
                if isinstance(frame, Distributions):
                    self.hear_of(frame)
                elif isinstance(frame, Memory) and await self._remember(frame) >= coming.end:
                    coming.complete.set()
        except (RemoteError, MalformedMemory):
            pass  # The next round requests the missing part; if that fails too, the reply handles it.
        finally:
            await stream.aclose()
