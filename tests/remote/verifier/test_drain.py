"""The end of a real server: running answers come to their end, new ones are refused, a second signal is the last."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from tests.remote.verifier.test_http import PATIENT, PROMPT, message
from tests.support.serving import REPOSITORY

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no such signals")

JSON = {"content-type": "application/json"}
QUESTION = {"messages": [{"role": "user", "content": "unpack a tar archive"}], "max_tokens": 5}
PADDING = 60_000
"""Bytes of white space in a question. For each thousand of them a client has a second more to send it."""


class Served:
    """A server process that a test ends by signals."""

    def __init__(self, process: asyncio.subprocess.Process, url: str) -> None:
        self._process = process
        self.client = httpx.AsyncClient(base_url=url, timeout=PATIENT, trust_env=False)

    def signal(self, which: signal.Signals = signal.SIGTERM) -> None:
        self._process.send_signal(which)

    async def ended(self) -> int:
        return await asyncio.wait_for(self._process.wait(), PATIENT)

    @property
    def runs(self) -> bool:
        return self._process.returncode is None

    async def not_ready(self) -> None:
        while (await self.client.get("/readyz")).status_code != 503:
            await asyncio.sleep(0.01)

    @asynccontextmanager
    async def answering(self) -> AsyncIterator[Answering]:
        """An answer that runs until the test lets it end."""
        answering = Answering()
        answering.task = asyncio.create_task(
            self.client.post("/v1/chat/completions", content=answering.question(), headers=JSON)
        )
        try:
            while "outrider_running_answers 1" not in (await self.client.get("/metrics")).text:
                await asyncio.sleep(0.01)
            yield answering
        finally:
            answering.task.cancel()
            await asyncio.gather(answering.task, return_exceptions=True)


class Answering:
    """A question whose last bytes are held back."""

    def __init__(self) -> None:
        self.rest = asyncio.Event()
        self.task: asyncio.Task[httpx.Response]

    async def question(self) -> AsyncIterator[bytes]:
        yield b" " * PADDING
        await self.rest.wait()
        yield json.dumps(QUESTION).encode()


@asynccontextmanager
async def served(pair: Path, *options: str) -> AsyncIterator[Served]:
    command = [sys.executable, "-m", "app.cli", "serve", "--port", "0", "--log-format", "off", *options]
    command += ["--model", str(pair / "target"), "--drafter", str(pair / "drafter")]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, cwd=REPOSITORY)
    try:
        assert process.stdout is not None
        line = (await process.stdout.readline()).decode()
        assert line.startswith("outrider server ready at "), line
        found = Served(process, line.split()[-1])
        async with found.client:
            yield found
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_a_running_answer_comes_to_its_end_and_new_ones_are_refused(tiny_pair: Path) -> None:
    async with served(tiny_pair, "--drain-seconds", str(PATIENT)) as server, server.answering() as answering:
        server.signal()
        await server.not_ready()
        assert (await server.client.get("/healthz")).status_code == 200
        refused = await server.client.post("/v1/rounds", content=message(1, [], PROMPT, session="new"))
        assert (refused.status_code, refused.headers["connection"]) == (503, "close")
        assert int(refused.headers["retry-after"]) >= 1
        spoken = await server.client.post("/v1/chat/completions", json=QUESTION)
        assert (spoken.status_code, spoken.json()["error"]["code"]) == (503, "unavailable")
        answering.rest.set()
        answered = await answering.task
        assert (answered.status_code, answered.json()["usage"]["completion_tokens"]) == (200, 5)
        assert await server.ended() == -signal.SIGTERM


async def test_a_second_signal_ends_at_once(tiny_pair: Path) -> None:
    async with served(tiny_pair, "--drain-seconds", str(PATIENT)) as server, server.answering() as answering:
        server.signal()
        await server.not_ready()
        assert server.runs
        server.signal(signal.SIGINT)
        assert await server.ended() != 0
        answering.rest.set()
        with pytest.raises(httpx.TransportError):
            await asyncio.wait_for(answering.task, PATIENT)


async def test_after_the_time_for_it_the_answer_is_cut(tiny_pair: Path) -> None:
    async with served(tiny_pair, "--drain-seconds", "0.5") as server, server.answering() as answering:
        server.signal()
        assert await server.ended() == -signal.SIGTERM
        answering.rest.set()
        with pytest.raises(httpx.TransportError):
            await asyncio.wait_for(answering.task, PATIENT)
