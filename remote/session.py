"""One conversation with a verifier: rounds that survive broken connections and forgetful servers.

The device owns the tokens it wants committed, the verifier owns what is committed. A session remembers how many tokens
the verifier is believed to hold, so that a round sends only the rest. A wrong belief costs one more exchange: the
verifier answers 409 with the prefixes it has, and the round goes up again from the longest one that matches.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, TypeVar

import msgspec

from drafter.tree import ROOT, DraftTree
from remote.bounds import Bounds, MemoryBudget
from remote.errors import Broken, Incompatible, Refused, quoted
from remote.protocol import (
    Conflict,
    CutOff,
    Frame,
    Memory,
    Progress,
    ProtocolError,
    Round,
    RunningDigest,
    Sampling,
    Stream,
    Tree,
    Verdict,
    decode,
    encode,
    pack_tokens,
    read_frames,
    unpack_tokens,
)
from remote.wire import Answer, Traffic, Wire

T = TypeVar("T")
S = TypeVar("S", Verdict, Progress)

MEMORY_SILENCE_SECONDS = 10.0
"""Without a byte of memory before its stream counts as broken: text no longer waits for it, so there is no hurry."""
MAX_CONFLICTS = 3
"""In one round. The second is answered with all tokens from 0, which no verifier can lack, so a third is a fault."""


class MemoryStream:
    """The frames after a verdict, newest tokens first. Read it to the end, or call `aclose`.

    Iterating raises `LinkDown` where the stream breaks or takes longer than the slowest line would, and `Incompatible`
    for what was not asked for: the verdict stands, and memory read so far is good.
    """

    def __init__(
        self, frames: AsyncIterator[Frame], answer: Answer, wire: Wire, length: int, budget: MemoryBudget
    ) -> None:
        self._frames, self._answer, self._wire, self._length, self._budget = frames, answer, wire, length, budget
        self._until = wire.clock.now() + MEMORY_SILENCE_SECONDS + budget.seconds(length)

    def __aiter__(self) -> MemoryStream:
        return self

    async def __anext__(self) -> Memory:
        try:
            host = self._wire.host
            async with self._wire.within(max(0.0, self._until - self._wire.clock.now())):
                frame = await _next_frame(self._frames, host)
            if frame is None:
                raise StopAsyncIteration
            if not isinstance(frame, Memory):
                raise Incompatible(f"{host} sent something else than memory after its verdict; update the verifier")
            self._budget.take(frame, self._length)
            return frame
        except BaseException:
            await self.aclose()
            raise

    async def aclose(self) -> None:
        await self._answer.aclose()


class HostedStream:
    """What the verifier drafts and verifies by itself, as it comes: `Progress`, each followed by memory if asked for.

    Each `Progress` is committed in the session before it is given. Read it to the end, or call `aclose`; the session
    goes on from what was read. Iterating raises `LinkDown` where the stream breaks or ends before the answer does, or
    nothing comes for `silence` seconds or no text for as long as the memory in between may take, and `Incompatible`.

    `rtt_seconds`: from the (last) request's first byte to the first `Progress`, less the verifier's own time; None
    before. `exchanges`: requests that it took to begin. `silence` may be changed while it is read.
    """

    def __init__(
        self,
        session: RemoteSession,
        frames: AsyncIterator[Frame],
        answer: Answer,
        traffic: Traffic,
        exchanges: int,
        *,
        most: int,
        silence: float,
        budget: MemoryBudget,
    ) -> None:
        self.rtt_seconds: float | None = None
        self.exchanges = exchanges
        self.silence = silence
        self._session, self._frames, self._answer, self._traffic = session, frames, answer, traffic
        self._left = most
        self._budget = budget
        self._claimed = 0.0
        """Seconds that the verifier says it took for all that has come."""
        self._text_at = session._wire.clock.now()
        """When the last text came."""

    @property
    def bytes_up(self) -> int:
        return self._traffic.up

    @property
    def bytes_down(self) -> int:
        """Grows while it is read."""
        return self._traffic.down

    def __aiter__(self) -> HostedStream:
        return self

    async def __anext__(self) -> Progress | Memory:
        try:
            session, clock = self._session, self._session._wire.clock
            patience = self.silence + self._budget.seconds(len(session._tokens)) - (clock.now() - self._text_at)
            frame = await session._streamed(self._frames, self._left, max(0.0, min(self.silence, patience)))
            if frame is None:
                raise StopAsyncIteration
            if isinstance(frame, Memory):
                self._budget.take(frame, len(session._tokens))
            else:
                self._text_at = clock.now()
                took = time.perf_counter() - self._answer.sent
                frame = _believable(frame, took - self._claimed)
                self._claimed += frame.server_seconds
                if self.rtt_seconds is None:
                    self.rtt_seconds = max(0.0, took - frame.server_seconds)
                self._left = 0 if frame.finished else self._left - len(frame.tokens) // 4
            return frame
        except BaseException:
            await self.aclose()
            raise

    async def aclose(self) -> None:
        await self._answer.aclose()


class RoundReply:
    """A verdict that is in, and memory that is still arriving.

    `rtt_seconds`: from the (last) request's first byte to the verdict, less the verifier's own time. Connecting is not
    part of it. `exchanges`: requests that it took, 1 where the verifier had what the device thought it had.
    """

    def __init__(
        self, verdict: Verdict, memory: MemoryStream, rtt_seconds: float, traffic: Traffic, exchanges: int = 1
    ) -> None:
        self.verdict = verdict
        self.memory = memory
        self.rtt_seconds = rtt_seconds
        self.exchanges = exchanges
        self._traffic = traffic

    @property
    def bytes_up(self) -> int:
        """Of all the exchanges that this round took."""
        return self._traffic.up

    @property
    def bytes_down(self) -> int:
        """Likewise; grows while memory is read."""
        return self._traffic.down

    @property
    def streamed(self) -> tuple[int, float]:
        """Bytes that came after the first ones, and the seconds that this took: what tells of the bandwidth."""
        return self._traffic.streamed, self._traffic.streaming_seconds

    async def aclose(self) -> None:
        await self.memory.aclose()


class RemoteSession:
    """What one conversation and its verifier share. One round at a time; a cancelled or failed one costs nothing."""

    def __init__(self, wire: Wire, bounds: Bounds) -> None:
        self._wire = wire
        self._bounds = bounds
        self.id = secrets.token_urlsafe(16)
        self._number = 0
        self._tokens: list[int] = []
        self._digests = RunningDigest()  # In step with `_tokens`.
        self._held = 0  # The verifier is believed to hold that many of them.

    async def round(
        self,
        tokens: Sequence[int],
        tree: DraftTree,
        sampling: Sampling,
        *,
        memory_from: int | None,
        deadline: float,
    ) -> RoundReply:
        """Have `tree` verified after `tokens`, which are all the tokens the device wants committed.

        `memory_from`: ask for memory from this position on; None: none. `deadline`: seconds to the verdict, over all
        the exchanges that the round takes. Raises `LinkDown`, `Refused`, `Incompatible`; then the next round starts
        from what the verifier surely had before this one.
        """
        packed = Tree.pack(tree)

        def request(base: int) -> Round:
            return Round(**self._since(base), tree=packed, sampling=sampling, memory_from=memory_from)

        async def read(answer: Answer, traffic: Traffic, exchanges: int) -> RoundReply:
            return await self._reply(answer, tree, traffic, exchanges, memory_from)

        return await self._ask("/v1/rounds", tokens, request, read, deadline, max(deadline, MEMORY_SILENCE_SECONDS))

    async def stream(
        self,
        tokens: Sequence[int],
        sampling: Sampling,
        *,
        most: int,
        memory_from: int | None,
        deadline: float,
        silence: float,
        draft: bool = True,
    ) -> HostedStream:
        """Have the verifier go on after `tokens` by itself, for at most `most` tokens.

        `deadline`: seconds until it begins to answer, over all the exchanges that this takes; `silence`: seconds
        without a byte after which it counts as broken. `draft` False: a token at a time. Raises as `round` does.
        """

        def request(base: int) -> Stream:
            return Stream(**self._since(base), most=most, draft=draft, sampling=sampling, memory_from=memory_from)

        async def read(answer: Answer, traffic: Traffic, exchanges: int) -> HostedStream:
            frames = self._frames(answer, most, memory_from)
            budget = MemoryBudget(self._bounds, memory_from, self._wire.host)
            return HostedStream(self, frames, answer, traffic, exchanges, most=most, silence=silence, budget=budget)

        patience = max(deadline, silence)
        return await self._ask("/v1/streams", tokens, request, read, deadline, patience, renumber=True)

    def _frames(self, answer: Answer, most: int, memory_from: int | None) -> AsyncIterator[Frame]:
        """What comes, frame by frame, where at most so many tokens do."""
        asked = 0 if memory_from is None else max(0, len(self._tokens) + most - memory_from)
        return read_frames(answer.chunks(), self._bounds.frame_bytes(asked))

    def _since(self, base: int) -> dict[str, Any]:
        """What a request says of the tokens, where the verifier holds the first `base` of them."""
        return {
            "session": self.id,
            "round": self._number,
            "base": base,
            "digest": self._digests.at(base),
            "append": pack_tokens(self._tokens[base:]),
        }

    async def _ask(
        self,
        path: str,
        tokens: Sequence[int],
        request: Callable[[int], Round | Stream],
        read: Callable[[Answer, Traffic, int], Awaitable[T]],
        deadline: float,
        silence: float,
        *,
        renumber: bool = False,
    ) -> T:
        """One request, and as many more as it takes until the verifier has what it is about; what `read` makes of it.

        `request` makes it for a base. `renumber`: each one is a new one, and no repetition.
        """
        base = self._align(tokens)
        self._number += 1
        traffic = Traffic()
        conflicts, broke = 0, False
        async with self._wire.within(deadline):
            while True:
                self._held = base
                try:
                    answer = await self._wire.send(
                        "POST", path, traffic, silence=silence, body=encode(request(base)), session=self.id
                    )
                    if answer.status == 200:
                        return await read(answer, traffic, 1 + conflicts + broke)
                    conflicts += 1
                    base = await self._resume_from(answer, conflicts)
                except Broken:
                    if broke:
                        raise
                    broke = True
                    self._number += renumber

    async def close(self, timeout: float) -> None:
        """Let the verifier forget this conversation. Raises `LinkDown`, `Refused`, `Incompatible`."""
        self._held = 0
        path = f"/v1/sessions/{self.id}"
        async with self._wire.within(timeout):
            try:
                answer = await self._wire.send("DELETE", path, Traffic(), silence=timeout, session=self.id)
            except Refused as refused:
                if refused.code != "not_found":
                    raise
            else:
                await answer.aclose()

    def _align(self, tokens: Sequence[int]) -> int:
        """Take `tokens` as what is wanted; how many of them the verifier is believed to hold already."""
        shared = _common_prefix(self._tokens, tokens)
        self._digests.truncate(shared)
        self._digests.extend(tokens[shared:])
        self._tokens = list(tokens)
        return min(shared, self._held)

    async def _resume_from(self, answer: Answer, conflicts: int) -> int:
        """The longest prefix of the wanted tokens that the verifier says it holds."""
        try:
            conflict = decode(await answer.read(), Conflict)
        except ProtocolError as error:
            raise Incompatible(f"{self._wire.host} sent {quoted(str(error))}; update the older side") from None
        if conflicts == MAX_CONFLICTS:
            raise Incompatible(f"{self._wire.host} refuses every base of a round, even none; update the older side")
        if conflicts == MAX_CONFLICTS - 1:
            return 0
        held = (length for length, digest in conflict.have if self._holds(length, digest))
        return max(held, default=0)

    def _holds(self, length: int, digest: bytes) -> bool:
        return length <= len(self._tokens) and self._digests.at(length) == digest

    async def _reply(
        self, answer: Answer, tree: DraftTree, traffic: Traffic, exchanges: int, memory_from: int | None
    ) -> RoundReply:
        host = self._wire.host
        try:
            frames = self._frames(answer, len(tree) + 1, memory_from)
            verdict = await _next_frame(frames, host)
            seconds = time.perf_counter() - answer.sent
            if verdict is None:
                raise Broken(f"the reply of {host} is empty; check the network")
            if not isinstance(verdict, Verdict):
                raise Incompatible(f"{host} sent memory before its verdict; update the older side")
            self._commit(verdict, tree)
        except BaseException:
            await answer.aclose()
            raise
        verdict = _believable(verdict, seconds)
        rtt_seconds = seconds - verdict.server_seconds
        memory = MemoryStream(frames, answer, self._wire, verdict.length, MemoryBudget(self._bounds, memory_from, host))
        return RoundReply(verdict, memory, rtt_seconds, traffic, exchanges)

    async def _streamed(self, frames: AsyncIterator[Frame], left: int, silence: float) -> Progress | Memory | None:
        """The next frame of a stream, which has `left` tokens to come, committed; None at its end."""
        host = self._wire.host
        async with self._wire.within(silence):
            frame = await _next_frame(frames, host)
        if isinstance(frame, Memory):
            return frame
        if frame is None:
            if left:
                raise Broken(f"the answer of {host} ended early; check the network")
            return None
        if not isinstance(frame, Progress) or len(frame.tokens) > 4 * left:
            raise Incompatible(f"{host} sent what this stream cannot have; update the older side")
        try:
            new = unpack_tokens(frame.tokens)
            self._bounds.check_tokens(new, host)
        except ProtocolError as error:
            raise Incompatible(f"{host} sent {quoted(str(error))}; update the older side") from None
        wanted = len(self._tokens)
        self._digests.extend(new)
        if not new or (frame.length, frame.digest) != (wanted + len(new), self._digests.at(wanted + len(new))):
            self._digests.truncate(wanted)
            raise Incompatible(f"{host} committed other tokens than it says; update the older side")
        self._tokens += new
        self._held = len(self._tokens)
        return frame

    def _commit(self, verdict: Verdict, tree: DraftTree) -> None:
        """Follow the verdict. Raises `Incompatible` unless it follows from the tokens and the tree that went up."""
        gained, at = [], ROOT
        for node in verdict.accepted:
            if node >= len(tree) or tree.parents[node] != at:
                raise Incompatible(f"{self._wire.host} accepted node {node}, no child of {at}; update the older side")
            gained.append(int(tree.tokens[node]))
            at = node
        if verdict.bonus is not None:
            self._bounds.check_tokens([verdict.bonus], self._wire.host)
            gained.append(verdict.bonus)
        if not gained and not verdict.finished:
            raise Incompatible(f"{self._wire.host} gave no token and does not say why; update the older side")
        wanted = len(self._tokens)
        self._digests.extend(gained)
        length = wanted + len(gained)
        if (verdict.round, verdict.length, verdict.digest) != (self._number, length, self._digests.at(length)):
            self._digests.truncate(wanted)
            raise Incompatible(f"{self._wire.host} committed other tokens than it says; update the older side")
        self._tokens += gained
        self._held = len(self._tokens)


def _believable(frame: S, seconds: float) -> S:
    """The same, where it says that the verifier took longer than was waited for it: deadlines follow what it says."""
    return msgspec.structs.replace(frame, server_seconds=max(0.0, min(frame.server_seconds, seconds)))


async def _next_frame(frames: AsyncIterator[Frame], host: str) -> Frame | None:
    """None at the end of the stream."""
    try:
        return await anext(frames, None)
    except CutOff:
        raise Broken(f"the reply of {host} broke off; check the network") from None
    except ProtocolError as error:
        raise Incompatible(f"{host} sent {quoted(str(error))}; update the older side") from None


def _common_prefix(one: Sequence[int], other: Sequence[int]) -> int:
    differs = (index for index, (left, right) in enumerate(zip(one, other)) if left != right)
    return next(differs, min(len(one), len(other)))
