"""Hostile clients: whatever they do, a healthy one is answered, memory is bounded, and the log has no traceback."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import httpx
import pytest

from drafter.runtime import Drafter
from models.engines.target import load_target
from models.engines.torch_engine import TorchEngine
from remote.protocol import Error, Sampling, decode
from tests.remote.verifier.hostile import (
    BOMBS,
    CACHE_MB,
    HEADS,
    JSON_BOMBS,
    MOST_CONNECTIONS,
    MOST_SESSIONS,
    ROUND,
    LoggedVerifier,
    answered,
    connections,
    mutated,
    opening,
    post,
    sent,
    streaming,
)
from tests.remote.verifier.test_http import PATIENT
from tests.remote.verifier.tiny import generated

pytestmark = pytest.mark.faults

GROWTH = 256 << 20
"""Bytes by which the process may grow under attack: the cache, all bodies that may be open, and what Python keeps."""
COUNT = 24


@pytest.fixture(scope="module")
def verifier(tiny_pair: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoggedVerifier]:
    with LoggedVerifier(tiny_pair, tmp_path_factory.mktemp("hostile") / "log") as process:
        yield process


@pytest.fixture(scope="module")
def prompt(tiny_pair: Path) -> list[int]:
    return Drafter.load(tiny_pair / "drafter").text.render([("user", "unpack a tar archive")])


@pytest.fixture(scope="module")
def text(tiny_pair: Path, prompt: list[int]) -> list[int]:
    """What the target says by itself."""
    return generated(TorchEngine(load_target(str(tiny_pair / "target")).model).model, prompt, COUNT)


async def gauges(verifier: LoggedVerifier) -> dict[str, float]:
    async with httpx.AsyncClient(timeout=PATIENT, trust_env=False) as client:
        while True:
            try:
                page = (await client.get(f"{verifier.url}/metrics")).text
                break
            except httpx.TransportError:
                await asyncio.sleep(0.05)
    lines = (line.split() for line in page.splitlines() if not line.startswith("#"))
    return {name.removeprefix("outrider_"): float(value) for name, value in lines}


async def settled(verifier: LoggedVerifier, files: int) -> None:
    """Wait until everything that the hostile clients held is given back."""
    while verifier.open_files() > files + 4 or (await gauges(verifier))["running_sessions"]:
        await asyncio.sleep(0.05)


# ---- attacks: each holds on for as long as its block lasts -----------------------------------------------------------


@asynccontextmanager
async def half_open_heads(port: int) -> AsyncIterator[None]:
    async with connections(port, 4 * MOST_CONNECTIONS) as opened:
        for _, writer in opened:
            writer.write(b"POST /v1/rou")
        yield


@asynccontextmanager
async def slow_bodies(port: int) -> AsyncIterator[None]:
    async with connections(port, MOST_CONNECTIONS - 8) as opened:
        for _, writer in opened:
            writer.write(post("/v1/rounds", b"", length=50_000))

        async def drip() -> None:
            while True:
                for _, writer in opened:
                    writer.write(b"x")
                await asyncio.sleep(0.05)

        task = asyncio.create_task(drip())
        yield
        task.cancel()


@asynccontextmanager
async def streams_that_are_never_read(port: int) -> AsyncIterator[None]:
    async with connections(port, 2 * MOST_SESSIONS) as opened:
        for index, (reader, writer) in enumerate(opened):
            reader._transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(post("/v1/streams", streaming(f"unread{index}", [5, 9, 2] * 40, draft=False)))
        yield


@asynccontextmanager
async def answers_that_are_never_read(port: int) -> AsyncIterator[None]:
    """Ask for the card again and again, without reading, until all buffers on the way are full."""
    async with connections(port, 8) as opened:
        for reader, writer in opened:
            reader._transport.pause_reading()  # type: ignore[attr-defined]
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            writer.write(b"GET /v1/card HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 1000)
        yield


@asynccontextmanager
async def hang_ups(port: int) -> AsyncIterator[None]:
    async def flood() -> None:
        rng = random.Random(5)
        while True:
            async with connections(port, 6) as opened:
                for index, (_, writer) in enumerate(opened):
                    body = streaming(f"gone{rng.randrange(10**9)}", [5, 9, 2] * 30)
                    path = "/v1/streams" if index % 2 else "/v1/chat/completions"
                    writer.write(post(path, body if index % 2 else b'{"messages":[{"role":"user","content":"ls"}]}'))
                await asyncio.sleep(rng.random() / 10)

    task = asyncio.create_task(flood())
    yield
    task.cancel()


@asynccontextmanager
async def hundreds_of_sessions(port: int) -> AsyncIterator[None]:
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=PATIENT, trust_env=False) as client:

        async def open_one(index: int) -> None:
            reply = await client.post("/v1/rounds", content=opening(f"many{index}", [5, 9, 2, index % 90]))
            assert reply.status_code in (200, 503)
            if reply.status_code == 503:
                assert decode(reply.content, Error).retry and reply.headers["retry-after"]

        async def flood() -> None:
            for start in range(0, 400, 20):
                await asyncio.gather(*(open_one(index) for index in range(start, start + 20)))

        task = asyncio.create_task(flood())
        await asyncio.sleep(0)
        yield
        await task


Attack = Callable[[int], AbstractAsyncContextManager[None]]
ATTACKS: list[Attack] = [
    half_open_heads, slow_bodies, streams_that_are_never_read, answers_that_are_never_read, hang_ups,
    hundreds_of_sessions,
]  # fmt: skip


async def unharmed(verifier: LoggedVerifier, prompt: list[int], text: list[int]) -> None:
    assert await answered(verifier.url, prompt, COUNT) == text
    assert verifier.alive() and "Traceback" not in verifier.log(), verifier.log()[-4000:]


@pytest.mark.parametrize("attack", ATTACKS)
async def test_a_healthy_client_is_answered_all_the_while(
    verifier: LoggedVerifier, prompt: list[int], text: list[int], attack: Attack
) -> None:
    assert await answered(verifier.url, prompt, COUNT) == text
    files, resident = verifier.open_files(), verifier.resident_bytes()
    async with attack(verifier.port):
        for _ in range(3):
            assert await answered(verifier.url, prompt, COUNT) == text
            seen = await gauges(verifier)
            assert seen["sessions"] <= MOST_SESSIONS and seen["cached_bytes"] <= CACHE_MB << 20
            assert verifier.open_files() < files + MOST_CONNECTIONS + 300
            assert verifier.resident_bytes() < resident + GROWTH
    await settled(verifier, files)
    await unharmed(verifier, prompt, text)


async def test_nonsense_gets_an_answer_or_a_closed_door(
    verifier: LoggedVerifier, prompt: list[int], text: list[int]
) -> None:
    paths = {"/v1/rounds": BOMBS, "/v1/streams": BOMBS, "/v1/chat/completions": JSON_BOMBS}
    for path, bomb in ((path, bomb) for path, bombs in paths.items() for bomb in bombs):
        answer = await sent(verifier.port, post(path, bomb))
        assert b" 400 " in answer[:30] or b" 413 " in answer[:30], (path, bomb[:20], answer[:200])
    for head in HEADS:
        await sent(verifier.port, head)
    await unharmed(verifier, prompt, text)


async def test_changed_bytes_break_nothing(verifier: LoggedVerifier, prompt: list[int], text: list[int]) -> None:
    rng = random.Random(18)
    chat = b'{"messages":[{"role":"user","content":"ls"}],"max_tokens":2,"temperature":1e-40}'
    warm = opening("warm", [5, 9], sampling=Sampling(temperature=1e-40, top_p=1e-30, seed=-1))
    seeds = [post("/v1/rounds", ROUND), post("/v1/rounds", warm), post("/v1/chat/completions", chat)]
    seeds.append(post("/v1/streams", streaming("fuzz", [5, 9], most=3)))
    for _ in range(2):  # As many at the same time as there may be connections.
        data = [mutated(rng, rng.choice(seeds)) for _ in range(MOST_CONNECTIONS - 8)]
        data.append(post("/v1/rounds", mutated(rng, ROUND)))
        data.append(post("/v1/streams", mutated(rng, streaming("f", [5], most=2))))
        await asyncio.gather(*(sent(verifier.port, one) for one in data))
    await unharmed(verifier, prompt, text)
