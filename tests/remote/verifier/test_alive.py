"""A stream tells a slow server from a dead line: it says that the server is there, if the device asks for that."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from drafter.runtime import Drafter
from models.engines.engine import Engine
from models.engines.target import Target
from remote import HostedStream, LinkDown, VerifierClient
from remote.link import Signs
from remote.protocol import Alive, Memory, Progress, Sampling, encode, read_frames
from remote.verifier.http import VerifierApp, create_app
from remote.verifier.serve import card
from tests.remote.verifier.test_hosted import ask
from tests.remote.verifier.test_http import PATIENT, Gate, reached, running

pytestmark = pytest.mark.faults

BEAT, BEARS = 0.05, 0.5
"""Seconds between two signs of life, and of silence that a device bears beside it."""
SIGNS = Signs(line=BEARS, busy=PATIENT)


@pytest.fixture(scope="module")
def prompt(drafter: Drafter) -> list[int]:
    return drafter.text.render([("user", "unpack a tar archive " * 12)])


@pytest.fixture
def beating(loaded: Target, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> VerifierApp:
    monkeypatch.setattr("remote.verifier.http.ALIVE_SECONDS", BEAT)
    return create_app(engine, card(loaded, engine))


@pytest.fixture
async def device(beating: VerifierApp) -> AsyncIterator[VerifierClient]:
    with running(beating) as url:
        async with VerifierClient(url) as client:
            yield client


@asynccontextmanager
async def begun(
    client: VerifierClient, engine: Engine, prompt: list[int], signs: Signs | None = SIGNS, silence: float = BEARS
) -> AsyncIterator[tuple[HostedStream, Gate]]:
    """A stream whose first token has come. Its memory is held."""
    async with Gate(engine.encoder) as held:
        stream = await client.session().stream(
            prompt, Sampling(), most=20, memory_from=0, deadline=PATIENT, silence=silence, signs=signs
        )
        assert isinstance(await anext(stream), Progress)
        yield stream, held


@pytest.mark.parametrize("signs", [SIGNS, None])
async def test_a_slow_server_is_borne_for_as_long_as_it_says_that_it_is_there(
    device: VerifierClient, engine: Engine, prompt: list[int], signs: Signs | None
) -> None:
    async with begun(device, engine, prompt, signs) as (stream, held):
        coming = asyncio.ensure_future(anext(stream))
        await asyncio.wait([coming], timeout=4 * BEARS)
        if signs is None:
            with pytest.raises(LinkDown, match=f"within {BEARS} s"):
                await coming
            return
        assert not coming.done()
        held.allow()
        assert isinstance(await coming, Memory)
        await stream.aclose()


async def test_a_server_that_says_nothing_else_is_given_up(
    device: VerifierClient, engine: Engine, prompt: list[int]
) -> None:
    async with begun(device, engine, prompt, Signs(line=PATIENT, busy=BEARS), silence=PATIENT) as (stream, _):
        since = time.monotonic()
        with pytest.raises(LinkDown, match=f"within {BEARS} s"):
            await anext(stream)
    assert BEARS / 2 < time.monotonic() - since < PATIENT / 2


async def test_who_does_not_ask_is_told_nothing(beating: VerifierApp, engine: Engine, prompt: list[int]) -> None:
    async def kinds(alive: bool) -> list[type]:
        body = encode(ask([], prompt, most=3, memory_from=0, alive=alive, session=f"s{alive}"))
        async with Gate(engine.encoder) as held, client.stream("POST", "/v1/streams", content=body) as response:
            asyncio.get_running_loop().call_later(4 * BEAT, held.allow)
            return [type(frame) async for frame in read_frames(response.aiter_raw())]

    async with reached(beating) as client:
        asked, silent = await kinds(True), await kinds(False)
    assert asked[:2] == [Progress, Alive] and [kind for kind in asked if kind is not Alive] == silent
    assert asked.count(Alive) > 1 and Alive not in silent and Memory in silent


async def test_a_device_that_stood_still_reads_what_came_meanwhile(
    device: VerifierClient, engine: Engine, prompt: list[int]
) -> None:
    async with begun(device, engine, prompt) as (stream, held):
        coming = asyncio.ensure_future(anext(stream))
        for _ in range(3):
            await asyncio.wait([coming], timeout=2 * BEAT)
            time.sleep(BEARS + 3 * BEAT)
        await asyncio.wait([coming], timeout=2 * BEAT)
        assert not coming.done()
        held.allow()
        assert isinstance(await coming, Memory)
        await stream.aclose()
