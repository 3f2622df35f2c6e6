"""The drafter of a conversation reads along while a server writes, and takes only memory of its own weights."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.config import Settings
from app.drafting.drafting import READ_TOKENS, Drafting
from drafter.runtime import Drafter
from drafter.search import Pace
from drafter.step import StepGraph
from models.config import DIGEST_BYTES, GRAPH
from models.memory import pack_memory, quantise_row
from remote import VerifierClient
from remote.protocol import Memory, Progress, Sampling, digest_of, encode_frame, pack_tokens
from storage import Store
from tests.remote.toy_verifier import http, raw_peer
from tests.support.conversing import ask, assistant, until
from tests.support.patience import PATIENCE_SECONDS
from tests.support.serving import VerifierProcess

PROMPT = [5, 9, 12, 7] * 10
ANSWER = [8, 6, 11, 10] * 12


class Watched:
    """A real step graph that notes how many tokens each call runs, and may have calls wait."""

    def __init__(self, step: StepGraph) -> None:
        self.step, self.runtime, self.cache_shapes, self.slab = step, step.runtime, step.cache_shapes, step.slab
        self.independent_rows = step.independent_rows
        self.calls: list[int] = []
        self.free = threading.Event()
        self.free.set()

    def __call__(self, tokens: Any, *rest: Any) -> Any:
        self.calls.append(len(tokens))
        assert self.free.wait(PATIENCE_SECONDS)
        return self.step(tokens, *rest)


@pytest.fixture
def watched(tiny_pair: Path) -> Watched:
    drafter = Drafter.load(tiny_pair / "drafter")
    return Watched(StepGraph(tiny_pair / "drafter" / GRAPH, drafter.config))


@pytest.fixture
def drafter(tiny_pair: Path, watched: Watched) -> Drafter:
    loaded = Drafter.load(tiny_pair / "drafter")
    return Drafter(loaded.config, loaded.text, watched)


@contextmanager
def other(drafter: Drafter, tmp_path: Path, name: str = "other.db") -> Iterator[Drafting]:
    with Store.open(tmp_path / name) as store, ThreadPoolExecutor(1) as thread:
        yield Drafting(drafter, store, store.conversations.create().id, thread)


@pytest.fixture
def drafting(drafter: Drafter, tmp_path: Path) -> Iterator[Drafting]:
    with other(drafter, tmp_path, "outrider.db") as drafting:
        yield drafting


def memory(drafter: Drafter, start: int, count: int, digest: bytes | None = None) -> Memory:
    """Memory in the drafter's shapes. `digest` None: its own."""
    random = np.random.default_rng(start)
    rows = [quantise_row(*random.normal(size=(2, count, *shape))) for shape in drafter.memory_layers]
    return Memory(digest=digest or drafter.memory_digest, start=start, count=count, data=pack_memory(rows))


async def first_tokens(drafting: Drafting, count: int) -> list[int]:
    async with aclosing(drafting.generate(drafting._context.tokens, 0.0, 0)) as tokens:
        return [await anext(tokens) for _ in range(count)]


async def all_read(watched: Watched, count: int) -> None:
    await until(lambda: sum(watched.calls) >= count)


async def test_the_prompt_is_read_in_pieces_before_anything_is_drafted(drafting: Drafting, watched: Watched) -> None:
    await drafting.follow(PROMPT)
    drafting.read_along()
    await all_read(watched, len(PROMPT) - 1)
    assert max(watched.calls) == READ_TOKENS and sum(watched.calls) == len(PROMPT) - 1
    before = len(watched.calls)
    await first_tokens(drafting, 1)
    assert watched.calls[before:] == [1]


async def test_the_answer_is_read_as_it_comes_and_what_is_written_then_is_the_same(
    drafter: Drafter, drafting: Drafting, watched: Watched, tmp_path: Path
) -> None:
    frames, whole = [(0, len(PROMPT))], [*PROMPT, *ANSWER]
    frames += [(at - 4, 4) for at in range(len(PROMPT) + 4, len(whole) + 1, 4)]
    with other(drafter, tmp_path) as waits:
        for start, count in frames:
            waits.receive(whole[: start + count + 1], memory(drafter, start, count))
        await waits.follow(whole)
        written = await first_tokens(waits, 12)
    watched.calls.clear()

    await drafting.follow(PROMPT)
    drafting.read_along()
    for start, count in frames:
        drafting.receive(whole[: start + count + 1], memory(drafter, start, count))
        read = start + count - READ_TOKENS
        await all_read(watched, read)  # Frames have time between them; where they have none, they go first.
    await drafting.follow(whole)
    before = len(watched.calls)
    assert len(whole) - sum(watched.calls[:before]) <= READ_TOKENS + 1
    assert await first_tokens(drafting, 12) == written


async def test_what_is_begun_before_it_is_needed_is_the_same_text(drafting: Drafting, watched: Watched) -> None:
    await drafting.follow(PROMPT)
    written = await first_tokens(drafting, 6)
    await drafting.follow(PROMPT)
    drafting.begin_alone(0.0, 0)
    async with aclosing(drafting.generate(PROMPT, 0.0, 0)) as tokens:
        first = await anext(tokens)
        calls = len(watched.calls)
        assert [first, *[await anext(tokens) for _ in range(5)]] == written
    assert len(watched.calls) == calls + 5  # The first step had been run.


@pytest.mark.parametrize("asked", [(PROMPT, 0.7, 0), ([*PROMPT, 8], 0.0, 0)])
async def test_what_was_begun_for_something_else_is_dropped(
    drafter: Drafter, drafting: Drafting, tmp_path: Path, asked: tuple[list[int], float, int]
) -> None:
    async def written(by: Drafting) -> list[int]:
        async with aclosing(by.generate(*asked)) as tokens:
            return [await anext(tokens) for _ in range(6)]

    with other(drafter, tmp_path) as waits:
        expected = await written(waits)
    await drafting.follow(PROMPT)
    drafting.begin_alone(0.0, 0)
    assert await written(drafting) == expected


async def test_a_draft_that_nobody_wants_any_more_lets_the_thread_go(drafting: Drafting, watched: Watched) -> None:
    await drafting.follow(PROMPT)
    watched.free.clear()
    deep = Pace(depth=16, breadth=1, nodes=16, deepest=16)
    draft = asyncio.create_task(drafting.draft(deep))
    await until(lambda: bool(watched.calls))
    draft.cancel()
    await asyncio.wait([draft])
    watched.free.set()
    await drafting.follow([*PROMPT, 3])
    assert len(watched.calls) == 1, "the call in progress was the last one"


@pytest.mark.parametrize("own", [True, False])
async def test_memory_of_other_weights_is_dropped(drafter: Drafter, drafting: Drafting, own: bool) -> None:
    frame = memory(drafter, 0, len(PROMPT), None if own else bytes(DIGEST_BYTES))
    whole = [*PROMPT, *ANSWER]
    progress = Progress(pack_tokens(ANSWER), 0, len(whole), digest_of(whole), finished=True, server_seconds=0.0)
    body = http(encode_frame(progress) + encode_frame(frame))
    async with raw_peer(lambda _: body) as port, VerifierClient(f"http://127.0.0.1:{port}") as client:
        stream = await client.session().stream(
            PROMPT, Sampling(), most=len(ANSWER), memory_from=0, deadline=PATIENCE_SECONDS, silence=PATIENCE_SECONDS
        )
        async with aclosing(stream):
            assert await anext(stream) == progress
            await drafting.follow(whole)
            drafting.listen(stream)
            assert await drafting.arrivals.hear(PATIENCE_SECONDS)
    assert drafting.memory_from == (len(PROMPT) if own else 0)


# ---- in the answers of a server --------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["auto", "hosted"])
async def test_it_reads_only_where_it_may_go_on(
    verifier: VerifierProcess, drafter: Drafter, watched: Watched, tmp_path: Path, mode: Any
) -> None:
    settings = Settings(mode=mode, max_tokens=60)
    async with assistant(drafter, tmp_path / "a.db", verifier.url, settings=settings, modes=("hosted",)) as opened:
        await opened.settled()
        heard = await ask(opened, "how do I unpack a tar archive?")
    assert heard.modes[-1] == "hosted" and all(heard.done.provenance)
    assert bool(watched.calls) == (mode == "auto")
