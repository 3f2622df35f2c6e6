"""Hosted mode: a stream that is drafted and verified there, until the answer is complete or another way is better.

The drafter here takes the memory that comes along, and so can go on at any token when the stream breaks.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from app.events import Paced
from app.remotes.connection import Connection
from app.remotes.peer import Verifier
from app.reply.answer import Shown
from app.reply.edge import Edge
from app.reply.generation import FIRST_SERVER_SECONDS, MEMORY_LIMIT_SECONDS, Step, Writing
from remote import HostedStream
from remote.protocol import Memory, Progress, unpack_tokens

MEMORY_BYTES = 64 * 1024
"""More than a frame of memory has, which may stand before the next words of a stream."""
GHOST_SECONDS = 0.03
"""Round trip from which on there is time to read guesses before the first words of a stream."""


class Hosted:
    """A stream of one answer by one verifier."""

    def __init__(self, writing: Writing, connection: Connection, verifier: Verifier) -> None:
        self._writing, self._connection, self._verifier = writing, connection, verifier
        self.begun = False
        """Something has come of it."""
        self._opening = self._warm = False
        """It begins its answer; and the verifier has run something before."""
        self._asked = self._before = 0.0
        """When it was asked for, and when its last words came."""

    async def steps(self) -> AsyncGenerator[Step, None]:
        """Raises `RemoteError`."""
        writing, connection, drafting = self._writing, self._connection, self._writing.drafting
        session, committed = writing.line.with_verifier(self._verifier), writing.tokens
        clock = writing.clock
        await drafting.hear_out(MEMORY_LIMIT_SECONDS)
        await drafting.follow(committed)
        opening = session.stream(
            committed,
            writing.sampling,
            most=writing.left,
            memory_from=writing.memory_from(self._verifier),
            deadline=writing.deadline(connection, committed),
            silence=connection.link.deadline(FIRST_SERVER_SECONDS),
            draft=writing.draft,
        )
        self._opening, self._warm = not writing.answer.tokens, connection.server_seconds is not None
        self._asked, stream = clock.now(), None
        asking = asyncio.create_task(opening)
        try:
            for step in await self._meanwhile(asking):
                yield step
            stream = await writing.unless_stopped(asking)
        finally:
            if stream is None:
                await _let_go(asking)
        if stream is None:
            writing.reason = "stopped"
            return
        writing.traffic.append(stream)
        try:
            while writing.reason is None:
                frame = await writing.unless_stopped(_next(stream))
                if frame is None:
                    writing.reason = "stopped" if writing.stopping.is_set() else "length"
                elif isinstance(frame, Memory):
                    drafting.receive(writing.tokens, frame)
                else:
                    seconds = self._learn(stream, frame)
                    for step in self._progress(frame):
                        yield step
                    yield _paced(frame, seconds)
                    yield writing.stats(connection)
                    stream.silence = connection.link.deadline(connection.server_seconds or 0.0, MEMORY_BYTES)
                    if writing.reason is None and writing.mode(connection) != "hosted":
                        return
        finally:
            if writing.reason in ("end", "length"):
                await drafting.follow(writing.tokens)
                drafting.listen(stream)
            else:
                await stream.aclose()

    async def _meanwhile(self, asking: asyncio.Task[Any]) -> list[Shown]:
        """Guesses to show while the first words are on their way; none where these come sooner."""
        writing, connection = self._writing, self._connection
        if not writing.draft or writing.answer.tokens or (connection.link.rtt_seconds or 0.0) < GHOST_SECONDS:
            return []
        edge = Edge(writing, connection, self._verifier)
        drafting = asyncio.create_task(edge.draft())
        try:
            await asyncio.wait([asking, drafting], return_when=asyncio.FIRST_COMPLETED)
            return writing.answer.guess(edge.guesses(drafting.result())) if drafting.done() else []
        finally:
            drafting.cancel()

    def _learn(self, stream: HostedStream, progress: Progress) -> float:
        """What a round of the stream says of verifier and line; seconds since the one before it, if there was one."""
        connection, now, gained = self._connection, self._writing.clock.now(), len(progress.tokens) // 4
        before, self._before = self._before, now
        if self.begun:
            connection.modes.hosted(gained, now - before)
            connection.waited(now - before)
            return now - before
        connection.streams(stream, progress.server_seconds)
        if self._warm and stream.exchanges == 1:
            beside = now - self._asked - (stream.rtt_seconds or 0.0)
            connection.modes.hosted(gained, beside, opening=self._opening)
        return 0.0

    def _progress(self, progress: Progress) -> list[Shown]:
        """Put what a round of the stream gave into the answer."""
        writing = self._writing
        shown = writing.verify(unpack_tokens(progress.tokens), progress.drafted)
        writing.line.sent, self.begun = progress.length, True
        if progress.finished and writing.reason is None:
            writing.reason = "length"
        return shown


def _paced(progress: Progress, seconds: float) -> Paced:
    """A round of the stream, so many seconds after the one before; 0: there was none."""
    return Paced(
        levels=0,
        nodes=0,
        expected=None,
        gained=len(progress.tokens) // 4,
        cost=None,
        draft_seconds=0.0,
        server_seconds=progress.server_seconds,
        rtt_seconds=max(0.0, seconds - progress.server_seconds),
        mode="hosted",
    )


async def _let_go(asking: asyncio.Task[HostedStream]) -> None:
    """Nobody wants the stream any more, whether it has begun or not."""
    asking.cancel()
    (opened,) = await asyncio.gather(asking, return_exceptions=True)
    if isinstance(opened, HostedStream):
        await opened.aclose()


async def _next(stream: HostedStream) -> Memory | Progress | None:
    """None at its end."""
    return await anext(stream, None)
