"""A peer that greets as a verifier of the tests' drafter, and then speaks the wire wrongly in any way that is asked.

Raw bytes over asyncio sockets: nothing between test and wire corrects what the peer gets wrong.
"""

from __future__ import annotations

import asyncio
import math
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import msgspec

from remote.protocol import (
    Card,
    Conflict,
    Likeliest,
    Memory,
    Progress,
    Round,
    RunningDigest,
    Stream,
    Verdict,
    decode,
    encode,
    encode_frame,
    pack_tokens,
    unpack_tokens,
)
from tests.remote.toy_verifier import http, listening, refusal, request_of

DAY = 86_400.0
MEGABYTE = 1 << 20


@dataclass
class Asked:
    """One request for a round or a stream, and the digest of the tokens that it commits."""

    message: Round | Stream
    session: list[int]
    """All tokens that the peer was given in this session."""
    writer: asyncio.StreamWriter

    @property
    def hosted(self) -> bool:
        return isinstance(self.message, Stream)

    def frame(self, tokens: list[int], /, **lies: object) -> bytes:
        """The right answer that gives these tokens, except for the lies."""
        length, digest = self._after(tokens)
        known: dict[str, object] = {"length": length, "digest": digest, "finished": False, "server_seconds": 0.0}
        if self.hosted:
            known |= {"tokens": pack_tokens(tokens), "drafted": 0}
            return encode_frame(msgspec.convert({**known, **lies}, Progress))
        known |= {"round": self.message.round, "accepted": (), "bonus": tokens[0] if tokens else None}
        return encode_frame(msgspec.convert({**known, **lies}, Verdict))

    def raw(self, tokens: list[int], /, **lies: object) -> bytes:
        """That answer as bytes, with lies that the protocol's own types would not hold."""
        whole = msgspec.msgpack.decode(self.frame(tokens)[5:])
        body = bytes([2 if self.hosted else 0]) + msgspec.msgpack.encode({**whole, **lies})
        return struct.pack("<I", len(body)) + body

    def memory(self, start: int, count: int, size: int, digest: bytes) -> bytes:
        return encode_frame(Memory(digest=digest, start=start, count=count, data=bytes(size)))

    def likeliest(self, start: int, rows: int, token: int = 5) -> bytes:
        """A frame with this many distributions that are sure of one token."""
        told = {"counts": bytes([1]) * rows, "tokens": pack_tokens([token] * rows), "log_probs": bytes(2 * rows)}
        return encode_frame(Likeliest(start=start, count=rows, **told))

    def _after(self, tokens: list[int]) -> tuple[int, bytes]:
        digests = RunningDigest()
        digests.extend([*self.session, *tokens])
        return len(digests), digests.at(len(digests))

    async def head(self) -> None:
        await self.write(http(b""))

    async def write(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()


Way = Callable[[Asked], Awaitable[None]]


@dataclass
class HostilePeer:
    """Shows `card`, and answers each round and stream in its `way`. `good`: requests that it first answers rightly."""

    card: Card
    way: Way
    good: int = 0
    asked: int = 0
    greeted: int = 0
    sessions: dict[str, list[int]] = field(default_factory=dict)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        async with listening(self._serve) as port:
            yield f"http://127.0.0.1:{port}"

    async def _serve(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head, body = await request_of(reader)
        path = head.split(b" ")[1]
        if path == b"/v1/card":
            self.greeted += 1
            writer.write(http(encode(self.card)))
            await writer.drain()
            return
        message: Round | Stream = decode(body, Stream if path == b"/v1/streams" else Round)
        tokens = self.sessions.get(message.session, [])[: message.base] + unpack_tokens(message.append)
        self.sessions[message.session] = tokens
        self.asked += 1
        asked = Asked(message, tokens, writer)
        if self.asked > self.good:
            await self.way(asked)
            return
        await asked.head()
        await asked.write(asked.frame([5]))
        tokens.append(5)


def sends(*parts: bytes | Callable[[Asked], bytes], hold: bool = False) -> Way:
    """Send these bytes after a right head. `hold`: then send nothing more, on a line that stays open."""

    async def way(asked: Asked) -> None:
        await asked.head()
        for part in parts:
            await asked.write(part if isinstance(part, bytes) else part(asked))
        if hold:
            await asyncio.Event().wait()

    return way


def answers(data: bytes) -> Way:
    """Send this whole response in place of its own."""

    async def way(asked: Asked) -> None:
        await asked.write(data)

    return way


def endlessly(part: Callable[[Asked, int], bytes], pause: float = 0.0, first: bool = True) -> Way:
    """Send the right first frame, then parts without end."""

    async def way(asked: Asked) -> None:
        await asked.head()
        if first:
            await asked.write(asked.frame([5]))
            asked.session.append(5)
        number = 0
        while True:
            await asked.write(part(asked, number))
            await asyncio.sleep(pause)
            number += 1

    return way


async def silent(asked: Asked) -> None:
    await asyncio.Event().wait()


async def dripping_head(asked: Asked) -> None:
    for byte in http(b"") * 1000:
        await asked.write(bytes([byte]))
        await asyncio.sleep(0.01)


def conflicts(have: list[tuple[int, bytes]] | None = None) -> Way:
    async def way(asked: Asked) -> None:
        held = have or [(0, RunningDigest().at(0))]
        await asked.write(http(encode(Conflict(have=tuple(held))), status="409 Conflict"))

    return way


def ways(vocabulary: int, memory: bytes) -> dict[str, Way]:
    """Everything that a verifier may get wrong, by name."""
    nothing = {"length": 0, "digest": bytes(16), "finished": False, "server_seconds": 0.0}
    verdict, progress = Verdict(round=0, accepted=(), bonus=1, **nothing), Progress(tokens=b"", drafted=0, **nothing)
    return {
        "silence": silent,
        "a head byte by byte": dripping_head,
        "nothing": answers(b""),
        "503 of a proxy": answers(http(b"<html>no", status="503 Service Unavailable", content_type="text/html")),
        "a page": answers(http(b"<html>Log in", content_type="text/html")),
        "a redirect": answers(http(b"", status="302 Found", extra="location: http://127.0.0.1:9/\r\n")),
        "412 for ever": answers(refusal("out_of_order", status="412 Precondition Failed")),
        "busy for ever": answers(refusal("busy", status="429 Too Many Requests", retry=True)),
        "internal for ever": answers(refusal("internal", status="500 Error", retry=True)),
        "a wrong token": answers(refusal("unauthorised", status="401 Unauthorized")),
        "an unknown code": answers(refusal("nonsense", status="400 Bad")),
        "409 of nothing": conflicts(),
        "409 of lies": conflicts([(1 << 30, bytes(16)), (0, bytes(16))]),
        "409 that is none": answers(http(b"\xc1", status="409 Conflict")),
        "an empty stream": sends(),
        "half a frame": sends(lambda asked: asked.frame([5])[:-3]),
        "half a frame, held": sends(lambda asked: asked.frame([5])[:-3], hold=True),
        "a length of 4 GiB": sends(b"\xff\xff\xff\xff" + bytes(64), hold=True),
        "a length of 64 MiB": endlessly(lambda asked, number: bytes(MEGABYTE), first=False),
        "a frame of no kind": sends(struct.pack("<I", 1) + b"\x07"),
        "a frame of no length": sends(struct.pack("<I", 0)),
        "no msgpack": sends(struct.pack("<I", 3) + b"\x00\xc1\xc1"),
        "deep nesting": sends(struct.pack("<I", 100_001) + b"\x00" + b"\x91" * 100_000),
        "the other kind of frame": sends(lambda asked: encode_frame(verdict if asked.hosted else progress)),
        "a wrong digest": sends(lambda asked: asked.frame([5], digest=bytes(16))),
        "a wrong length": sends(lambda asked: asked.frame([5], length=3)),
        "another round": sends(lambda asked: asked.raw([5], round=asked.message.round + 7, drafted=1 << 30)),
        "nodes that are not in the tree": sends(lambda asked: asked.raw([5], accepted=[40, 41], tokens=b"abc")),
        "a token beyond the vocabulary": sends(lambda asked: asked.frame([vocabulary])),
        "a token of 2^31 - 1": sends(lambda asked: asked.frame([(1 << 31) - 1])),
        "a negative token": sends(lambda asked: asked.raw([5], bonus=-1, tokens=pack_tokens([-1]))),
        "nothing gained": sends(lambda asked: asked.frame([])),
        "nothing gained, and the end": sends(lambda asked: asked.frame([], finished=True)),
        "seconds that are no number": sends(lambda asked: asked.raw([5], server_seconds=math.nan)),
        "endless seconds": sends(lambda asked: asked.raw([5], server_seconds=math.inf)),
        "negative seconds": sends(lambda asked: asked.raw([5], server_seconds=-1.0)),
        "a day, then silence": sends(lambda asked: asked.frame([5], server_seconds=DAY), hold=True),
        "memory first": sends(lambda asked: asked.memory(0, 1, 8, memory), hold=True),
        "memory for ever": endlessly(lambda asked, number: asked.memory(0, 1, 64, memory), pause=0.001),
        "memory for ever, of others": endlessly(lambda asked, number: asked.memory(0, 1, 64, bytes(16)), pause=0.001),
        "memory of nobody": endlessly(lambda asked, number: asked.memory(1 << 30, 1 << 30, 64, memory), pause=0.01),
        "memory of 1 MiB a token": endlessly(lambda asked, number: asked.memory(0, 1, MEGABYTE, memory)),
        "memory byte by byte": endlessly(lambda asked, number: b"\x40\x00\x00\x00"[:1], pause=0.01),
        "distributions first": sends(lambda asked: asked.likeliest(0, 1), hold=True),
        "distributions for ever": endlessly(lambda asked, number: asked.likeliest(number, 1), pause=0.001),
        "distributions of nobody": endlessly(lambda asked, number: asked.likeliest(1 << 30, 1), pause=0.01),
        "distributions of 4,000 tokens": endlessly(lambda asked, number: asked.likeliest(0, 4_000), pause=0.01),
        "distributions of unknown tokens": endlessly(
            lambda asked, number: asked.likeliest(len(asked.session) - 1, 1, vocabulary), pause=0.01
        ),
        "text byte by byte": endlessly(lambda asked, number: b"\x01", pause=0.01, first=False),
    }
