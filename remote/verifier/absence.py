"""Streams that outlive their connection: written for a device that is away, kept for a while, readable from any token.

While nobody reads a stream, its session gets turns only when no other wants one, computes no memory, and may be dropped
for another. Only tokens are kept, 4 bytes each.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

import msgspec
from starlette.requests import ClientDisconnect

from models.engines.engine import EngineError
from remote.protocol import Frame, Progress, pack_tokens, unpack_tokens
from remote.verifier.admission import Admission
from remote.verifier.refusals import Dropped, OutOfOrder, RoundRefused
from remote.verifier.sessions.sessions import Sessions
from remote.verifier.sessions.turns import Turns
from remote.verifier.sessions.verification import Answer

KEPT_SECONDS = 600.0
"""How long a stream is kept after its device was last heard of."""
KEPT_TOKENS = 1 << 20
"""Most tokens of all kept streams together; 4 MB."""
KEPT_STREAMS = 1024
"""Most kept streams that nobody reads."""


class Writing:
    """A stream while it is written and kept. `start`: position of its first token."""

    def __init__(self, holder: str, number: int, start: int) -> None:
        self.holder, self.number, self.start = holder, number, start
        self.tokens = array("i")
        self.last: Progress | None = None
        """The newest of its frames with tokens."""
        self.begun = False
        """Whether its first frame is there."""
        self.over = False
        """Whether nothing more will come."""
        self.error: Exception | None = None
        """Why it was cut off."""
        self.attended = True
        """Whether the device that began it still reads it."""
        self.awaited = True
        """Whether its session has been asked for nothing else since."""
        self.followers = 0
        """Others who read it."""
        self.alone = 0
        """Tokens that were written since nobody reads it."""
        self.left = 0.0
        """When that began."""
        self.unsent: list[Frame] = []
        """Frames that the device that began it has not been sent yet."""
        self.task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()

    @property
    def length(self) -> int:
        """Position after its last token."""
        return self.start + len(self.tokens)

    @property
    def read(self) -> bool:
        """Whether anybody reads it."""
        return self.attended or self.followers > 0

    def take(self, frame: Progress) -> None:
        self.tokens.extend(unpack_tokens(frame.tokens))
        self.last = frame

    def since(self, position: int) -> Progress:
        """All its tokens from this position on, as one frame."""
        assert self.last is not None
        tokens = pack_tokens(self.tokens[position - self.start :].tolist())
        return msgspec.structs.replace(self.last, tokens=tokens, drafted=0, server_seconds=0.0)

    def end(self) -> None:
        self.over = True
        self.stir()

    def stir(self) -> None:
        """Wake all who wait for a change."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def changes(self) -> None:
        await self._changed.wait()


class Absence:
    """The streams of devices that may come back. Belongs to the event loop.

    `most`: tokens that are written while nobody reads; 0 if no stream outlives its line.
    """

    def __init__(self, sessions: Sessions, turns: Turns, admission: Admission, most: int) -> None:
        self.most = most
        self._table, self._counters = sessions.table, sessions.counters
        self._turns, self._admission = turns, admission
        self._kept: OrderedDict[str, Writing] = OrderedDict()
        """By session; the stream that was begun first comes first."""

    async def begin(self, name: str, writing: Writing, frames: Answer, gone: Callable[[], Awaitable[bool]]) -> None:
        """Write a stream in the background, and wait for its first frame. Call `leave` when its device has left.

        `gone`: whether the device has left already. Raises what `Turns.first` raises.
        """

        async def forgotten() -> bool:
            if writing.attended and await gone():
                await self.leave(name, writing)
            return self._kept.get(name) is not writing or (not writing.read and self._admission.draining)

        newer = self._kept.get(name)
        if newer is not None and newer.number >= writing.number:  # A request that came late must not end it.
            raise OutOfOrder(f"round {writing.number} comes after round {newer.number}; start from a fresh session")
        self.forget(name)
        self._kept[name] = writing
        self._tidy()
        writing.task = asyncio.create_task(self._write(name, writing, frames, forgotten))
        writing.task.add_done_callback(lambda _: writing.end())  # It may be cancelled before its first step.
        try:
            while not (writing.begun or writing.over):
                await writing.changes()
        except asyncio.CancelledError:
            await self.leave(name, writing)
            raise
        if not writing.begun:
            if self._kept.get(name) is writing:
                del self._kept[name]
            raise writing.error or Dropped("another request has ended this stream; continue from its beginning")

    async def frames(self, writing: Writing) -> AsyncGenerator[Frame, None]:
        """Its frames, for the device that began it. Raises what cut it off."""
        while writing.unsent or (writing.attended and not writing.over):
            if writing.unsent:
                yield writing.unsent.pop(0)
                writing.stir()
            else:
                await writing.changes()
        if writing.error is not None:
            raise writing.error

    async def leave(self, name: str, writing: Writing) -> None:
        """Note that the device that began it reads it no more."""
        writing.attended = False
        writing.unsent.clear()
        self._left(name, writing)

    def find(self, name: str, number: int, position: int) -> Writing | None:
        """The kept stream of this number in a session, or None if it, or its token at this position, is not kept."""
        self._tidy()
        found = self._kept.get(name)
        kept = found is not None and found.number == number and found.start <= position <= found.length
        return found if kept else None

    async def since(self, name: str, writing: Writing, position: int) -> AsyncGenerator[Frame, None]:
        """Its tokens from this position on: all that are there in one frame, then those that are still written.

        Whoever asks has lost the line over which it began.
        """
        writing.followers += 1
        writing.attended = False
        writing.unsent.clear()
        writing.stir()
        self.returned(name)
        try:
            while True:
                if writing.length > position:
                    frame, position = writing.since(position), writing.length
                    yield frame
                elif writing.over:
                    return
                else:
                    await writing.changes()
        finally:
            writing.followers -= 1
            self._left(name, writing)

    def returned(self, name: str) -> None:
        """Note that the device of a session is there, so that its turns wait for no others."""
        self._table.away.discard(name)

    def went_on(self, name: str) -> None:
        """Note that a device asks for something else. It may still read an older stream for a while."""
        if (writing := self._kept.get(name)) is not None:
            writing.awaited = False
        self.returned(name)

    def forget(self, name: str, number: int | None = None) -> bool:
        """End the stream of a session, which nobody wants any more. Returns False if it has none, or not this one."""
        writing = self._kept.get(name)
        if writing is None or number not in (None, writing.number):
            return False
        del self._kept[name]
        if writing.task is not None:
            writing.task.cancel()
        return True

    def _left(self, name: str, writing: Writing) -> None:
        """A reader has left."""
        if not writing.read:
            writing.left, writing.alone = time.monotonic(), 0
            if writing.awaited and not writing.over and self._kept.get(name) is writing:
                self._table.away.add(name)
        writing.stir()

    async def _write(
        self, name: str, writing: Writing, frames: Answer, forgotten: Callable[[], Awaitable[bool]]
    ) -> None:
        try:
            first = await self._turns.first(name, frames, forgotten)
            writing.begun = True
            writing.stir()
            async with aclosing(self._turns.rest(name, first, frames)) as written:
                async for frame in written:
                    if isinstance(frame, Progress):
                        writing.take(frame)
                    if writing.attended:
                        writing.unsent.append(frame)
                    elif isinstance(frame, Progress):
                        self._wrote_on(writing, frame.gained)
                    writing.stir()
                    while writing.unsent:
                        await writing.changes()
                    if not writing.read and (writing.alone >= self.most or self._admission.draining):
                        return
        except (RoundRefused, EngineError, ClientDisconnect) as error:
            writing.error = error
        except Exception as error:
            writing.error = error
            raise  # Of a bug, the log has the place.
        finally:
            self.returned(name)
            writing.end()
            await self._turns.close(name, frames)

    def _wrote_on(self, writing: Writing, tokens: int) -> None:
        """Count tokens that were written after the request that asked for them had ended."""
        self._admission.took(writing.holder, tokens)
        if not writing.read:
            writing.alone += tokens
            self._counters.away_tokens += tokens

    def _tidy(self) -> None:
        """Forget what was kept long enough, or is too much."""
        now, kept = time.monotonic(), sum(len(writing.tokens) for writing in self._kept.values())
        for name, writing in list(self._kept.items()):
            many = kept > KEPT_TOKENS or len(self._kept) > KEPT_STREAMS
            if not writing.read and (many or now - writing.left > KEPT_SECONDS):
                kept -= len(writing.tokens)
                self.forget(name)
