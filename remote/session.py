"""One conversation with a verifier: rounds that survive broken connections and restarted servers.

A session remembers how many tokens the verifier is believed to hold, so that a round sends only the rest. A wrong
belief costs one more exchange: the verifier answers 409 with the prefixes that it has, and the round is sent again from
the longest one that matches.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, TypeVar

from models.tree import DraftTree
from remote.errors import UPDATE, Broken, Incompatible, LinkDown, Refused, Unsent, quoted
from remote.link import Signs
from remote.protocol import (
    Conflict,
    Frame,
    Progress,
    ProtocolError,
    Round,
    Sampling,
    Stream,
    Tree,
    Verdict,
    decode,
    encode,
    read_frames,
)
from remote.proxies import to_check
from remote.replies import MEMORY_SILENCE_SECONDS, HostedStream, MemoryStream, RoundReply, believable, next_frame
from remote.reply_limits import LikeliestBudget, MemoryBudget, ReplyLimits
from remote.response import Response, Traffic
from remote.shared_tokens import SharedTokens
from remote.wire import Wire

T = TypeVar("T")

MAX_CONFLICTS = 3
"""How many conflicts in one round count as a fault. After one fewer, all tokens are sent from 0, a prefix that no
verifier can lack."""


class RemoteSession:
    """The state that one conversation shares with its verifier.

    One round at a time; a cancelled or failed round loses nothing.
    """

    def __init__(self, wire: Wire, limits: ReplyLimits) -> None:
        self.id = secrets.token_urlsafe(16)
        self._wire = wire
        self._limits = limits
        self._number = 0
        """Number of the last round or stream."""
        self._tokens = SharedTokens(limits, wire.host)
        self._left: tuple[int, Sampling] | None = None
        """Number and sampling of the stream that the verifier may write on although its line has broken."""

    async def round(
        self,
        tokens: Sequence[int],
        tree: DraftTree,
        sampling: Sampling,
        *,
        memory_from: int | None,
        deadline: float,
        likeliest: int = 0,
    ) -> RoundReply:
        """Have `tree` verified after `tokens`, which are all tokens that the device wants committed.

        `memory_from`: request memory from this position on, or None for no memory. `likeliest`: request this many of
        the target's likeliest tokens at each position; an older verifier sends none. `deadline`: seconds to the
        verdict, over all exchanges of the round. Raises `LinkDown`, `Refused`, `Incompatible`; the next round then
        starts from what the verifier certainly held before this one.
        """
        packed = Tree.pack(tree)

        def request(base: int) -> Round:
            since = self._since(base)
            return Round(**since, tree=packed, sampling=sampling, memory_from=memory_from, likeliest=likeliest)

        async def read(response: Response, exchanges: int) -> RoundReply:
            return await self._reply(response, tree, exchanges, memory_from, likeliest)

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
        likeliest: int = 0,
        signs: Signs | None = None,
        resumable: bool = False,
    ) -> HostedStream:
        """Let the verifier continue after `tokens` on its own, for at most `most` tokens.

        `deadline`: seconds until it begins to answer, over all exchanges that this takes. `silence`: seconds without a
        frame after which it counts as broken. `draft` False: one token at a time. `signs`: request signs of life, and
        the limits that apply while they arrive; an older verifier sends none. `resumable`: the verifier continues if
        the line breaks (`left`); call `complete` or `stop` at the end. The rest is as for `round`.
        """

        def request(base: int) -> Stream:
            asked = {**self._since(base), "memory_from": memory_from, "likeliest": likeliest, "resumable": resumable}
            return Stream(**asked, most=most, draft=draft, sampling=sampling, alive=signs is not None)

        async def read(response: Response, exchanges: int) -> HostedStream:
            self._left = (self._number, sampling) if resumable else None
            return HostedStream(
                self._tokens,
                self._frames(response, most, memory_from),
                response,
                self._wire,
                exchanges,
                most=most,
                silence=silence,
                memory=self._budget(memory_from),
                likeliest=LikeliestBudget(self._limits, likeliest, len(self._tokens), self._wire.host),
                signs=signs,
            )

        patience = max(deadline, silence)
        try:
            return await self._ask("/v1/streams", tokens, request, read, deadline, patience, renumber=True)
        except (LinkDown, asyncio.CancelledError):  # The verifier may have begun it.
            self._left = (self._number, sampling) if resumable else None
            raise

    def left(self, sampling: Sampling) -> bool:
        """Whether the verifier may have written more of a stream, sampled like this, than has arrived."""
        if self._left is None:
            return False
        return self._left[1] == sampling or self._left[1].temperature == sampling.temperature == 0

    async def written(self, tokens: Sequence[int], *, most: int, deadline: float) -> Progress | None:
        """What the verifier has written of that stream after `tokens`, or None if it keeps nothing of it.

        At most `most` tokens. Raises `LinkDown`; it may then be called again.
        """
        if (left := self._left) is None:
            return None
        path = f"/v1/streams/{self.id}?round={left[0]}&from={len(tokens)}"
        try:
            async with self._wire.within(deadline):
                response = await self._wire.send("GET", path, Traffic(), silence=deadline, session=self.id)
                try:
                    frame = await next_frame(self._frames(response, most, None), self._wire.host)
                finally:
                    await response.aclose()
            self._left = None
            if not isinstance(frame, Progress) or frame.gained > most:
                return None  # No token is ready yet.
            self._tokens.align(tokens)
            self._tokens.take_progress(frame)
            return frame
        except (Refused, Incompatible):  # It is not kept, or follows other tokens.
            self._left = None
            return None

    def stop(self) -> None:
        """Tell the verifier, in the background, that nobody wants more of the last stream."""
        left, self._left = self._left, None
        if left is not None:
            self._wire.farewell(f"/v1/streams/{self.id}?round={left[0]}", session=self.id)

    def complete(self) -> None:
        """Note that the last stream has arrived to its end."""
        self._left = None

    async def close(self, timeout: float) -> None:
        """Have the verifier forget this conversation. Raises `LinkDown`, `Refused`, `Incompatible`."""
        self._tokens.held = 0
        path = f"/v1/sessions/{self.id}"
        async with self._wire.within(timeout):
            try:
                response = await self._wire.send("DELETE", path, Traffic(), silence=timeout, session=self.id)
            except Refused as refused:
                if refused.code != "not_found":
                    raise
            else:
                await response.aclose()

    # ---- requests ----------------------------------------------------------------------------------------------------

    def _since(self, base: int) -> dict[str, Any]:
        """The request's fields about the session, if the verifier holds the first `base` tokens."""
        return {"session": self.id, "round": self._number, **self._tokens.since(base)}

    async def _ask(
        self,
        path: str,
        tokens: Sequence[int],
        request: Callable[[int], Round | Stream],
        read: Callable[[Response, int], Awaitable[T]],
        deadline: float,
        silence: float,
        *,
        renumber: bool = False,
    ) -> T:
        """Send a request, repeatedly until the verifier holds the tokens that it builds on, and `read` the reply.

        `request` makes the request for a base. `renumber`: after a broken connection, send it as a new one, not as a
        repetition.
        """
        base = self._tokens.align(tokens)
        self._number += 1
        traffic = Traffic()
        conflicts, broke = 0, False
        async with self._wire.within(deadline):
            while True:
                self._tokens.held = base
                try:
                    response = await self._wire.send(
                        "POST", path, traffic, silence=silence, body=encode(request(base)), session=self.id
                    )
                    if response.status == 200:
                        return await read(response, 1 + conflicts + broke)
                    conflicts += 1
                    base = await self._resume_from(response, conflicts)
                except Unsent:
                    self._number -= broke and renumber
                    raise
                except Broken:
                    if broke:
                        raise
                    broke = True
                    self._number += renumber

    async def _resume_from(self, response: Response, conflicts: int) -> int:
        """The length of the longest prefix of the wanted tokens that the verifier says it holds."""
        try:
            conflict = decode(await response.read(), Conflict)
        except ProtocolError as error:
            raise Incompatible(f"{self._wire.host} sent {quoted(str(error))}; {UPDATE}") from None
        if conflicts == MAX_CONFLICTS:
            raise Incompatible(f"{self._wire.host} rejects every prefix of a conversation, even none; {UPDATE}")
        return 0 if conflicts == MAX_CONFLICTS - 1 else self._tokens.longest_prefix(conflict)

    # ---- replies -----------------------------------------------------------------------------------------------------

    async def _reply(
        self,
        response: Response,
        tree: DraftTree,
        exchanges: int,
        memory_from: int | None,
        likeliest: int,
    ) -> RoundReply:
        host, before = self._wire.host, len(self._tokens)
        try:
            frames = self._frames(response, len(tree) + 1, memory_from)
            verdict = await next_frame(frames, host)
            seconds = time.perf_counter() - response.sent
            if verdict is None:
                raise Broken(f"the reply of {host} is empty; {to_check(host)}")
            if not isinstance(verdict, Verdict):
                raise Incompatible(f"{host} sent something else before its verdict; {UPDATE}")
            self._tokens.take_verdict(verdict, tree, self._number)
        except BaseException:
            await response.aclose()
            raise
        verdict = believable(verdict, seconds)
        soft = LikeliestBudget(self._limits, likeliest, before, host)
        memory = MemoryStream(frames, response, self._wire, verdict, tree, self._budget(memory_from), soft)
        return RoundReply(verdict, memory, seconds - verdict.server_seconds, response.traffic, exchanges)

    def _frames(self, response: Response, most: int, memory_from: int | None) -> AsyncIterator[Frame]:
        """The frames of a reply that may bring at most this many tokens."""
        asked = 0 if memory_from is None else max(0, len(self._tokens) + most - memory_from)
        return read_frames(response.chunks(), self._limits.frame_bytes(asked))

    def _budget(self, memory_from: int | None) -> MemoryBudget:
        return MemoryBudget(self._limits, memory_from, self._wire.host)
