"""A verifier's replies: a verdict followed by memory, or a stream of the verifier's own rounds."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from drafter.learning.distributions import Distributions
from models.tree import DraftTree
from remote.errors import UPDATE, Broken, Incompatible, quoted
from remote.link import Signs
from remote.protocol import Alive, CutOff, Frame, Likeliest, Memory, Progress, ProtocolError, Verdict
from remote.proxies import to_check
from remote.reply_limits import LikeliestBudget, MemoryBudget
from remote.response import Response, Traffic
from remote.shared_tokens import SharedTokens
from remote.wire import Wire

S = TypeVar("S", Verdict, Progress)

MEMORY_SILENCE_SECONDS = 10.0
"""Seconds without a byte of memory after which its stream counts as broken. No text waits for memory, so there is no
hurry."""


class MemoryStream:
    """The frames after a verdict: memory, newest tokens first, then what the target might have said.

    Read it to the end, or call `aclose`. Iterating raises `LinkDown` if the stream breaks or takes longer than the
    slowest line would, and `Incompatible` for unrequested frames. In both cases the verdict and everything read so far
    stay valid.
    """

    def __init__(
        self,
        frames: AsyncIterator[Frame],
        response: Response,
        wire: Wire,
        verdict: Verdict,
        tree: DraftTree,
        memory: MemoryBudget,
        likeliest: LikeliestBudget,
    ) -> None:
        """`tree`: the one that the verdict judges."""
        self._frames, self._response, self._wire, self._verdict, self._tree = frames, response, wire, verdict, tree
        self._memory, self._likeliest = memory, likeliest
        self._until = wire.clock.now() + MEMORY_SILENCE_SECONDS + memory.seconds(verdict.length)

    def __aiter__(self) -> MemoryStream:
        return self

    async def __anext__(self) -> Memory | Distributions:
        try:
            host = self._wire.host
            async with self._wire.within(max(0.0, self._until - self._wire.clock.now())):
                frame = await next_frame(self._frames, host)
            if frame is None:
                raise StopAsyncIteration
            if isinstance(frame, Likeliest):
                return self._likeliest.take(frame, self._verdict.length, self._tree, self._verdict.accepted)
            if not isinstance(frame, Memory):
                raise Incompatible(f"{host} sent something other than memory after its verdict; update the server")
            self._memory.take(frame, self._verdict.length)
            return frame
        except BaseException:
            await self.aclose()
            raise

    async def aclose(self) -> None:
        await self._response.aclose()


@dataclass
class RoundReply:
    """The verdict of a round, and the memory that is still arriving.

    `rtt_seconds`: from the first byte of the (last) request to the verdict, without the verifier's own time and without
    connecting. `exchanges`: requests that the round took; 1 if the verifier had what the device thought it had.
    """

    verdict: Verdict
    memory: MemoryStream
    rtt_seconds: float
    traffic: Traffic
    exchanges: int

    async def aclose(self) -> None:
        await self.memory.aclose()


class HostedStream:
    """What the verifier drafts and verifies on its own: `Progress` frames, each followed by what else was requested.

    Each `Progress` is committed in the session before it is returned. Read the stream to the end, or call `aclose`; the
    session continues from what was read.

    `rtt_seconds`: from the first byte of the (last) request to the first `Progress`, without the verifier's own time;
    None until then. `exchanges`: requests that it took to begin. `silence`: seconds without a frame after which the
    stream counts as broken. `signs`: the limits that apply instead if the verifier sends signs of life, or None if they
    were not requested. Both may be changed while the stream is read.
    """

    def __init__(
        self,
        tokens: SharedTokens,
        frames: AsyncIterator[Frame],
        response: Response,
        wire: Wire,
        exchanges: int,
        *,
        most: int,
        silence: float,
        memory: MemoryBudget,
        likeliest: LikeliestBudget,
        signs: Signs | None = None,
    ) -> None:
        """`most`: new tokens after which the stream ends."""
        self.traffic = response.traffic
        self.rtt_seconds: float | None = None
        self.exchanges = exchanges
        self.silence = silence
        self.signs = signs
        self._every: float | None = None
        """Seconds between two signs of life, or None before the first."""
        self._tokens, self._frames, self._response, self._wire = tokens, frames, response, wire
        self._left = most
        self._memory, self._likeliest = memory, likeliest
        self._claimed = 0.0
        """Seconds that the verifier claims to have taken so far."""
        self._text_at = wire.clock.now()
        """When the last text arrived."""

    def __aiter__(self) -> HostedStream:
        return self

    async def __anext__(self) -> Progress | Memory | Distributions:
        """Raises `LinkDown` if the stream breaks, ends before the answer does, or is silent for too long.

        It also does so if no text arrives for as long as the memory in between may take. Raises `Incompatible` for
        frames that this stream cannot have.
        """
        try:
            frame = await self._frame()
            if frame is None:
                if self._left:
                    host = self._wire.host
                    raise Broken(f"the answer of {host} ended early; {to_check(host)}")
                raise StopAsyncIteration
            if isinstance(frame, Memory):
                self._memory.take(frame, len(self._tokens))
                return frame
            if isinstance(frame, Likeliest):
                return self._likeliest.take(frame, len(self._tokens))
            return self._take(frame)
        except BaseException:
            await self.aclose()
            raise

    async def _frame(self) -> Frame | None:
        """The next frame that is not a sign of life."""
        clock, begun = self._wire.clock, self._wire.clock.now()
        while True:
            borne, waited = self.silence, clock.now() - begun
            if self.signs is not None and self._every is not None:
                borne, self._response.silence = self.signs.busy, self.signs.line + self._every
            patience = min(borne, borne + self._memory.seconds(len(self._tokens)) - (begun - self._text_at))
            async with self._wire.within(patience - waited, waited):
                frame = await next_frame(self._frames, self._wire.host)
            if self.signs is None or not isinstance(frame, Alive):
                return frame
            self._every = frame.seconds

    def _take(self, frame: Frame) -> Progress:
        if not isinstance(frame, Progress) or frame.gained > self._left:
            raise Incompatible(f"{self._wire.host} sent a message that does not belong to this stream; {UPDATE}")
        self._tokens.take_progress(frame)
        self._text_at = self._wire.clock.now()
        took = time.perf_counter() - self._response.sent
        frame = believable(frame, took - self._claimed)
        self._claimed += frame.server_seconds
        if self.rtt_seconds is None:
            self.rtt_seconds = max(0.0, took - frame.server_seconds)
        self._left = 0 if frame.finished else self._left - frame.gained
        return frame

    @property
    def over(self) -> bool:
        """Whether all its tokens have arrived."""
        return not self._left

    async def aclose(self) -> None:
        await self._response.aclose()


def believable(frame: S, seconds: float) -> S:
    """The frame, with the verifier's time capped at the seconds that were waited for it.

    Deadlines follow from that time, so a verifier must not be able to invent it.
    """
    return msgspec.structs.replace(frame, server_seconds=max(0.0, min(frame.server_seconds, seconds)))


async def next_frame(frames: AsyncIterator[Frame], host: str) -> Frame | None:
    """The next frame, or None at the end of the stream. Raises `Broken` and `Incompatible`."""
    try:
        return await anext(frames, None)
    except CutOff:
        raise Broken(f"the reply of {host} broke off; {to_check(host)}") from None
    except ProtocolError as error:
        raise Incompatible(f"{host} sent {quoted(str(error))}; {UPDATE}") from None
