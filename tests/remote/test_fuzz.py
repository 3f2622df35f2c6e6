"""Frames that chance has damaged: a session raises one of its own errors, or commits tokens that add up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
from hypothesis import given
from hypothesis import strategies as st

from models.tree import DraftTree
from remote import RemoteError, VerifierClient
from remote.protocol import (
    CONTENT_TYPE,
    Memory,
    Progress,
    Round,
    Sampling,
    Stream,
    Verdict,
    decode,
    digest_of,
    encode_frame,
    pack_tokens,
)
from remote.reply_limits import ReplyLimits

VOCABULARY = 50
PROMPT = [1, 2, 3]
BOUNDS = ReplyLimits(VOCABULARY, token_bytes=4)
SECONDS = 5.0

splices = st.lists(st.tuples(st.integers(0, 450), st.integers(0, 40), st.binary(max_size=8)), max_size=4)
"""Where bytes are damaged, how many of them go, and what comes in their place."""


def damaged(data: bytes, splices: list[tuple[int, int, bytes]]) -> bytes:
    for at, gone, instead in splices:
        data = data[:at] + instead + data[at + gone :]
    return data


async def pieces(data: bytes, size: int) -> AsyncIterator[bytes]:
    for at in range(0, len(data), size):
        yield data[at : at + size]


def replying(how: list[tuple[int, int, bytes]], size: int) -> httpx.MockTransport:
    """Answer each request rightly except for the damage."""

    def handle(request: httpx.Request) -> httpx.Response:
        hosted = request.url.path == "/v1/streams"
        message: Round | Stream = decode(request.content, Stream if hosted else Round)
        tokens, frames = list(PROMPT), []
        for token in (7, 8, 9) if hosted else (7,):
            tokens.append(token)
            known = {"length": len(tokens), "digest": digest_of(tokens), "finished": False, "server_seconds": 0.01}
            if hosted:
                frame = Progress(tokens=pack_tokens([token]), drafted=0, **known)
            else:
                frame = Verdict(round=message.round, accepted=(), bonus=token, **known)
            memory = Memory(digest=bytes(16), start=len(tokens) - 2, count=1, data=b"abcd")
            frames += [encode_frame(frame), encode_frame(memory)]
        body = pieces(damaged(b"".join(frames), how), size)
        return httpx.Response(200, headers={"content-type": CONTENT_TYPE}, content=body)

    return httpx.MockTransport(handle)


@given(splices, st.integers(1, 64), st.booleans())
def test_damaged_frames_end_in_a_typed_error_or_in_tokens_that_add_up(
    how: list[tuple[int, int, bytes]], size: int, hosted: bool
) -> None:
    asyncio.run(_exchange(how, size, hosted))


async def _exchange(how: list[tuple[int, int, bytes]], size: int, hosted: bool) -> None:
    async with VerifierClient("http://127.0.0.1:9", transport=replying(how, size)) as client:
        session = client.session(BOUNDS)
        held = 0
        try:
            if hosted:
                stream = await session.stream(
                    PROMPT, Sampling(), most=3, memory_from=2, deadline=SECONDS, silence=SECONDS
                )
                async for frame in stream:
                    held += len(frame.data) if isinstance(frame, Memory) else 0
            else:
                reply = await session.round(PROMPT, DraftTree.empty(), Sampling(), memory_from=2, deadline=SECONDS)
                async for memory in reply.memory:
                    held += len(memory.data)
        except RemoteError as error:
            assert str(error).isprintable()
        assert all(0 <= token < VOCABULARY for token in session._tokens.tokens)
        assert session._tokens.tokens[: len(PROMPT)] == PROMPT and session._tokens._digests.at(len(session._tokens))
        assert held <= BOUNDS.token_bytes * len(session._tokens)
        if not how:
            assert session._tokens.tokens == PROMPT + ([7, 8, 9] if hosted else [7])
