"""What the drafter knows of one conversation: memory that is not its own is dropped, on whichever way it comes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from app.drafting.drafting import Drafting
from drafter.runtime import Drafter
from models.config import DIGEST_BYTES
from models.memory import pack_memory, quantise_row
from remote import VerifierClient
from remote.protocol import Memory, Progress, Sampling, digest_of, encode_frame, pack_tokens
from storage import Store
from tests.remote.toy_verifier import http, raw_peer
from tests.support.patience import PATIENCE_SECONDS

TOKENS = [5, 9, 12, 7]
NEW = [8, 6]


@pytest.fixture
def drafter(tiny_pair: Path) -> Drafter:
    return Drafter.load(tiny_pair / "drafter")


@pytest.fixture
def drafting(drafter: Drafter, tmp_path: Path) -> Iterator[Drafting]:
    with Store.open(tmp_path / "outrider.db") as store, ThreadPoolExecutor(1) as thread:
        yield Drafting(drafter, store, store.conversations.create().id, thread)


def memory(drafter: Drafter, digest: bytes) -> Memory:
    """Memory of all tokens but the newest, in the drafter's shapes."""
    count, random = len(TOKENS), np.random.default_rng(0)
    rows = [quantise_row(*random.normal(size=(2, count, *shape))) for shape in drafter.memory_layers]
    return Memory(digest=digest, start=0, count=count, data=pack_memory(rows))


@pytest.mark.parametrize("own", [True, False])
async def test_memory_of_other_weights_is_dropped(drafter: Drafter, drafting: Drafting, own: bool) -> None:
    frame = memory(drafter, drafter.memory_digest if own else bytes(DIGEST_BYTES))
    drafting.receive([*TOKENS, *NEW], frame)
    await drafting.follow([*TOKENS, *NEW])
    assert drafting.memory_from == (len(TOKENS) if own else 0)


@pytest.mark.parametrize("own", [True, False])
async def test_so_it_is_where_a_stream_brings_it(drafter: Drafter, drafting: Drafting, own: bool) -> None:
    frame = memory(drafter, drafter.memory_digest if own else bytes(DIGEST_BYTES))
    length, digest = len(TOKENS) + len(NEW), digest_of(TOKENS + NEW)
    progress = Progress(pack_tokens(NEW), 0, length, digest, finished=True, server_seconds=0.0)
    body = http(encode_frame(progress) + encode_frame(frame))
    async with raw_peer(lambda _: body) as port, VerifierClient(f"http://127.0.0.1:{port}") as client:
        stream = await client.session().stream(
            TOKENS, Sampling(), most=len(NEW), memory_from=0, deadline=PATIENCE_SECONDS, silence=PATIENCE_SECONDS
        )
        async with contextlib.aclosing(stream):
            assert await anext(stream) == progress
            await drafting.follow([*TOKENS, *NEW])
            drafting.listen(stream)
            assert await drafting.arrivals.hear(PATIENCE_SECONDS)
    assert drafting.memory_from == (len(TOKENS) if own else 0)
