"""Hosted mode: a stream that the verifier drafts and verifies on its own.

The drafter on the device receives the accompanying memory, so it can continue at any token if the stream breaks. If it
may do so, it also reads along in the background, so that its first word then needs only one step. A few of its drafts
are compared with the stream, to find out whether edge mode would be faster.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import aclosing
from typing import Any, NamedTuple

from app.concurrency import abandon
from app.events import RoundEnded, RoundReport
from app.remotes.connection import Connection
from app.remotes.peer import Verifier
from app.reply.answer import Shown
from app.reply.edge import Edge
from app.reply.generation import FIRST_SERVER_SECONDS, MEMORY_LIMIT_SECONDS, Generation, Step
from drafter.learning.distributions import Distributions
from models.tree import ROOT, DraftTree
from remote import HostedStream, RemoteError, RemoteSession
from remote.protocol import Memory, Progress

MEMORY_BYTES = 64 * 1024
"""More than the size of a memory frame, which may precede the next words of a stream."""
GHOST_SECONDS = 0.03
"""Least round trip that leaves time to read guesses before the first words of a stream."""
WATCH_PAUSE = 8
"""Least tokens of a stream between two drafts that are compared with it."""


class Watched(NamedTuple):
    """A draft of this device, made while a stream arrives."""

    start: int
    """Position of the token that it begins with."""
    tree: DraftTree
    seconds: float


class Hosted:
    def __init__(
        self,
        generation: Generation,
        connection: Connection,
        verifier: Verifier,
        *,
        alone: bool = False,
        reads_along: bool = False,
        again: bool = False,
    ) -> None:
        """`alone`: the drafter may continue alone, so it needs the memory. `reads_along`: it also reads the stream.

        `again`: the last stream broke, so the line may be down. The drafter is not kept busy with guesses; it starts
        writing alone while the stream is requested.
        """
        self._generation, self.connection, self.verifier = generation, connection, verifier
        self._alone, self._reads_along, self._again = alone, reads_along, again
        self.begun = False
        self._opening = self._warm = False
        """Whether the stream opens its answer, and whether the verifier has run anything before."""
        self._asked = self._last = 0.0
        """When the stream was requested, and when its last words arrived."""
        self._watching: asyncio.Task[Watched | None] | None = None
        self._watches = self._remembers = False
        """Whether drafts of this device may be compared with the stream, and whether memory was requested."""
        self._watched_at = 0
        """Number of tokens at the last draft."""

    async def steps(self) -> AsyncGenerator[Step, None]:
        """The stream until the answer is complete or another mode is better. Raises `RemoteError`."""
        generation, connection, drafting = self._generation, self.connection, self._generation.drafting
        yield connection.mode("hosted", connection.why_mode if generation.chooses_mode else None)
        session, committed = generation.session.with_verifier(self.verifier), generation.tokens
        await drafting.hear_out(MEMORY_LIMIT_SECONDS)
        await drafting.follow(committed)
        asking, stream = asyncio.create_task(self._open(session, committed)), None
        if self._reads_along:
            drafting.read_along()
            if self._again:
                sampling = generation.given.sampling
                drafting.begin_alone(sampling.temperature, sampling.seed)
        try:
            for step in await self._guesses(asking):
                yield step
            stream = await generation.unless_stopped(asking)
        finally:
            if stream is None:
                await abandon(asking)
        if stream is None:
            generation.end("stopped")
            return
        generation.figures.carried(stream)
        broke = False
        try:
            async with aclosing(self._frames(stream)) as frames:
                async for brought in frames:
                    yield brought
        except RemoteError:
            broke = True
            raise
        finally:
            if stream.over:
                session.complete()
            elif not broke:
                session.stop()
            await self._end(stream)

    def _open(self, session: RemoteSession, committed: list[int]) -> Coroutine[None, None, HostedStream]:
        generation, connection, link = self._generation, self.connection, self.connection.speed.link
        memory_from = self._memory_from()
        self._remembers = memory_from is not None
        self._opening, self._warm = not generation.answer.tokens, connection.speed.server_seconds is not None
        self._asked = generation.clock.now()
        return session.stream(
            committed,
            generation.given.sampling,
            most=generation.left,
            memory_from=memory_from,
            likeliest=generation.likeliest(self.verifier),
            deadline=generation.deadline(connection, committed),
            silence=link.deadline(FIRST_SERVER_SECONDS),
            draft=generation.given.draft,
            signs=link.signs(connection.speed.server_seconds or FIRST_SERVER_SECONDS, MEMORY_BYTES),
            resumable=self.verifier.card.while_away > 0,
        )

    async def _frames(self, stream: HostedStream) -> AsyncGenerator[Step, None]:
        generation, connection, drafting = self._generation, self.connection, self._generation.drafting
        while generation.reason is None:
            frame = await generation.unless_stopped(anext(stream, None))
            if frame is None:
                generation.end("stopped" if generation.stopping else "length")
            elif isinstance(frame, Memory):
                end = frame.start + frame.count
                complete = frame.start <= drafting.memory_from and end >= len(generation.tokens) - 1
                drafting.receive(generation.tokens, frame)
                if complete:
                    self._watch()
            elif isinstance(frame, Distributions):
                drafting.arrivals.hear_of(frame)
            else:
                seconds = self._learn(stream, frame)
                self.begun = True
                for step in generation.take_progress(frame):
                    yield step
                self._compare()
                if not self._remembers:
                    self._watch()
                yield RoundEnded(generation.stats, _report(frame, seconds))
                known, link = (connection.speed.server_seconds or 0.0, MEMORY_BYTES), connection.speed.link
                stream.silence, stream.signs = link.deadline(*known), link.signs(*known)
                if generation.reason is None and generation.mode(connection) != "hosted":
                    return

    async def _end(self, stream: HostedStream) -> None:
        """End what went along with the stream. Memory may still arrive after a complete answer."""
        generation, drafting = self._generation, self._generation.drafting
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        if generation.reason is not None:  # Otherwise the line broke, and the drafter may need what it reads.
            drafting.read_no_more()
        if generation.reason in ("end", "length"):
            await drafting.follow(generation.tokens)
            drafting.listen(stream)
        else:
            await stream.aclose()

    def _memory_from(self) -> int | None:
        """The first token whose memory to request, or None to spare the server the time."""
        generation, connection = self._generation, self.connection
        needed = self._alone or generation.drafting.learns
        self._watches = (
            generation.chooses_mode
            and connection.answers <= 1
            and connection.speed.modes.may_watch(
                connection.speed.link.rtt_seconds or 0.0, shared=self.verifier.client.local
            )
        )
        return generation.memory_from(self.verifier) if needed or self._watches else None

    def _watch(self) -> None:
        """Begin a draft of the next tokens, if it is to be compared. All requested memory is here."""
        generation, connection, local = self._generation, self.connection, self.verifier.client.local
        length = len(generation.tokens)
        if self._watching is not None or not self._watches or length < self._watched_at + WATCH_PAUSE:
            return
        if generation.given.draft_sampling is None and connection.speed.modes.watches(
            connection.speed.link.rtt_seconds or 0.0, shared=local
        ):
            self._watched_at = length
            self._watching = asyncio.create_task(self._draft_beside(length))

    async def _draft_beside(self, length: int) -> Watched | None:
        """Draft after this many tokens, as an edge round would. Returns None if that took no drafter call."""
        generation, connection, drafting = self._generation, self.connection, self._generation.drafting
        begun = generation.clock.now()
        pace = Edge(generation, connection, self.verifier).pace(generation.left, connection.speed.costs.cost)
        if not self._remembers:
            await drafting.follow(generation.tokens[:length])
        tree = await drafting.draft(pace)
        if self.verifier.client.local:
            connection.speed.modes.disturbed(generation.clock.now() - begun)
        if drafting.taken is None:
            return None
        connection.speed.costs.drafted(*drafting.taken)
        return Watched(length, tree, drafting.taken[1])

    def _compare(self) -> None:
        """Compare the last draft with the stream, once enough has arrived."""
        if self._watching is None or not self._watching.done():
            return
        if self._watching.exception() is not None or (watched := self._watching.result()) is None:
            self._watching = None
            return
        accepted = agreed(watched.tree, self._generation.tokens[watched.start :])
        if accepted is not None:
            self.connection.speed.modes.watched(accepted + 1, watched.seconds, len(watched.tree))
            self._watching = None

    async def _guesses(self, asking: asyncio.Task[Any]) -> list[Shown]:
        """Guesses to show until the first words arrive; none if these arrive sooner."""
        generation, connection = self._generation, self.connection
        near = (connection.speed.link.rtt_seconds or 0.0) < GHOST_SECONDS
        drafts = generation.given.draft and generation.can_draft
        if not drafts or generation.answer.tokens or near or self._again:
            return []
        edge = Edge(generation, connection, self.verifier)
        drafting = asyncio.create_task(edge.draft())
        try:
            await asyncio.wait([asking, drafting], return_when=asyncio.FIRST_COMPLETED)
            return edge.guess(drafting.result().tree) if drafting.done() else []
        finally:
            drafting.cancel()

    def _learn(self, stream: HostedStream, progress: Progress) -> float:
        """Learn about verifier and line from a round. Returns the seconds since the previous round; 0 for the first."""
        connection, now, gained = self.connection, self._generation.clock.now(), progress.gained
        before, self._last = self._last, now
        counts = connection.answers <= 1
        if self.begun:
            if counts:
                connection.speed.modes.hosted(gained, now - before)
            connection.speed.waited(now - before)
            return now - before
        connection.speed.streams(stream, progress.server_seconds)
        if counts and self._warm and stream.exchanges == 1:
            beside = now - self._asked - (stream.rtt_seconds or 0.0)
            connection.speed.modes.hosted(gained, beside, opening=self._opening)
        return 0.0


def agreed(tree: DraftTree, tokens: Sequence[int]) -> int | None:
    """How many nodes of a draft a target accepts that says these tokens, or None if it has not said enough."""
    children, node, accepted = tree.children(), ROOT, 0
    for token in tokens:
        following = children.get(node, {})
        if token not in following:
            return accepted
        node, accepted = following[token], accepted + 1
    return None if children.get(node) else accepted


def _report(progress: Progress, seconds: float) -> RoundReport:
    """Report a round of the stream that arrived `seconds` after the previous one; 0 for the first."""
    return RoundReport(
        levels=0,
        nodes=0,
        expected=None,
        gained=progress.gained,
        cost=None,
        draft_seconds=0.0,
        server_seconds=progress.server_seconds,
        rtt_seconds=max(0.0, seconds - progress.server_seconds),
        mode="hosted",
    )
