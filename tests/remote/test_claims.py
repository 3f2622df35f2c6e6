"""A verifier's claims are compared with what was asked and what was sent, whatever digest it claims."""

from __future__ import annotations

import asyncio
import contextlib

import numpy as np
import pytest

from models.tree import DraftTree
from remote import Incompatible, VerifierClient
from remote.protocol import (
    Conflict,
    Progress,
    Round,
    Sampling,
    Verdict,
    decode,
    digest_of,
    encode,
    encode_frame,
    pack_tokens,
    unpack_tokens,
)
from tests.remote.toy_verifier import continuation, http, listening, raw_peer
from tests.support.patience import PATIENCE_SECONDS as PATIENCE

PROMPT = [5, 9, 1]


def peer(frame: Verdict | Progress) -> contextlib.AbstractAsyncContextManager[int]:
    return raw_peer(lambda _: http(encode_frame(frame)))


async def test_accepted_nodes_hang_on_one_another() -> None:
    """Node 1 hangs on node 0, which was not accepted. The digest is that of what the verifier says it committed."""
    tree, tokens = DraftTree(np.array([7, 8]), np.array([-1, 0])), [*PROMPT, 8, 9]
    verdict = Verdict(1, (1,), 9, len(tokens), digest_of(tokens), finished=False, server_seconds=0.0)
    async with peer(verdict) as port, VerifierClient(f"http://127.0.0.1:{port}") as client:
        with pytest.raises(Incompatible, match="accepted node 1"):
            await client.session().round(PROMPT, tree, Sampling(), memory_from=None, deadline=PATIENCE)


async def test_a_stream_says_no_more_than_was_asked_for() -> None:
    new = continuation(PROMPT, 3)
    digest = digest_of(PROMPT + new)
    progress = Progress(pack_tokens(new), 0, len(PROMPT) + 3, digest, finished=True, server_seconds=0.0)
    async with peer(progress) as port, VerifierClient(f"http://127.0.0.1:{port}") as client:
        for most, fits in ((3, True), (2, False)):
            stream = await client.session().stream(
                PROMPT, Sampling(), most=most, memory_from=None, deadline=PATIENCE, silence=PATIENCE
            )
            with contextlib.nullcontext() if fits else pytest.raises(Incompatible, match="cannot have"):
                assert [frame async for frame in stream] == [progress]


async def test_who_does_not_hold_what_it_says_is_sent_everything() -> None:
    bases = []

    async def serve(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        size = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        message = decode(await reader.readexactly(size), Round)
        bases.append(message.base)
        if message.base:
            conflict = Conflict(have=((len(PROMPT), digest_of(PROMPT)), (0, digest_of([]))))
            writer.write(http(encode(conflict), status="409 Conflict"))
        else:
            tokens = unpack_tokens(message.append)
            tokens += continuation(tokens, 1)
            verdict = Verdict(message.round, (), tokens[-1], len(tokens), digest_of(tokens), False, 0.0)
            writer.write(http(encode_frame(verdict)))
        await writer.drain()

    async with listening(serve) as port, VerifierClient(f"http://127.0.0.1:{port}") as client:
        session, tokens = client.session(), list(PROMPT)
        for _ in range(2):
            reply = await session.round(tokens, DraftTree.empty(), Sampling(), memory_from=None, deadline=PATIENCE)
            await reply.aclose()
            tokens += continuation(tokens, 1)
    assert reply.verdict.length == len(tokens) and bases == [0, len(PROMPT) + 1, len(PROMPT), 0]
