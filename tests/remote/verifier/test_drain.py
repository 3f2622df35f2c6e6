"""The end of a real server: running answers come to their end, new ones are refused, a second signal is the last."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from tests.remote.verifier.test_http import PATIENT, PROMPT, message, until
from tests.support.serving import VerifierProcess

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no such signals")

JSON = {"content-type": "application/json"}
QUESTION = {"messages": [{"role": "user", "content": "unpack a tar archive"}], "max_tokens": 5}
PADDING = 60_000
"""Bytes of white space in a question. For each thousand of them a client has a second more to send it."""


class Served(NamedTuple):
    server: VerifierProcess
    client: httpx.AsyncClient
    answering: asyncio.Task[httpx.Response]
    rest: asyncio.Event
    """Set to let the client send the last bytes of its question."""

    async def drains(self) -> None:
        self.server.signal(signal.SIGTERM)
        while (await self.client.get("/readyz")).status_code != 503:
            await asyncio.sleep(0.01)

    async def ended(self) -> int:
        return await asyncio.to_thread(self.server.ended)

    async def is_cut(self) -> None:
        self.rest.set()
        with pytest.raises(httpx.TransportError):
            await asyncio.wait_for(self.answering, PATIENT)


@asynccontextmanager
async def served(pair: Path, seconds: float) -> AsyncIterator[Served]:
    """A server that drains for so long, with an answer that runs until the test lets it end."""
    options, rest = ("--drain-seconds", str(seconds), "--log-format", "off"), asyncio.Event()

    async def question() -> AsyncIterator[bytes]:
        yield b" " * PADDING
        await rest.wait()
        yield json.dumps(QUESTION).encode()

    with VerifierProcess(pair, options=options) as server:
        async with httpx.AsyncClient(base_url=server.url, timeout=PATIENT, trust_env=False) as client:
            asked = client.post("/v1/chat/completions", content=question(), headers=JSON)
            answering = asyncio.create_task(asked)
            try:
                await until(client, "running_answers", 1)
                yield Served(server, client, answering, rest)
            finally:
                answering.cancel()
                await asyncio.gather(answering, return_exceptions=True)


async def test_a_running_answer_comes_to_its_end_and_new_ones_are_refused(tiny_pair: Path) -> None:
    async with served(tiny_pair, PATIENT) as found:
        await found.drains()
        assert (await found.client.get("/healthz")).status_code == 200
        refused = await found.client.post("/v1/rounds", content=message(1, [], PROMPT, session="new"))
        assert (refused.status_code, refused.headers["connection"]) == (503, "close")
        assert int(refused.headers["retry-after"]) >= 1
        spoken = await found.client.post("/v1/chat/completions", json=QUESTION)
        assert (spoken.status_code, spoken.json()["error"]["code"]) == (503, "unavailable")
        found.rest.set()
        answered = await found.answering
        assert (answered.status_code, answered.json()["usage"]["completion_tokens"]) == (200, 5)
        assert await found.ended() == -signal.SIGTERM


async def test_a_second_signal_ends_at_once(tiny_pair: Path) -> None:
    async with served(tiny_pair, PATIENT) as found:
        await found.drains()
        found.server.signal(signal.SIGINT)
        assert await found.ended() != 0
        await found.is_cut()


async def test_after_the_time_for_it_the_answer_is_cut(tiny_pair: Path) -> None:
    async with served(tiny_pair, 0.5) as found:
        found.server.signal(signal.SIGTERM)
        assert await found.ended() == -signal.SIGTERM
        await found.is_cut()
