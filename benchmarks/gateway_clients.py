"""The clients of the gateway's benchmark: programs of their own, or what takes their places.

A program in `benchmarks/client_programs/` is started once and asked for one answer after another, so that what it takes
to start is in no measurement.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, Self

import httpx

from tests.support.gateways import CHAT, GatewayProcess

FOLDER = Path(__file__).parent / "client_programs"
BOUND_SECONDS = 90.0
"""Most seconds of one answer, and of one check afterwards."""
Chunks = AsyncIterator[str]
"""Lines of a stream of server-sent events."""
Told = dict[str, Any]
"""What a client says: a `chunk`, or the `text` of one; at the end `done`, with the `id` if chunks had none; `error`."""


async def with_httpx(url: str, body: dict[str, Any]) -> Chunks:
    opened = httpx.AsyncClient(base_url=url, timeout=BOUND_SECONDS, trust_env=False)
    async with opened as client, client.stream("POST", CHAT, json=body) as response:
        async for line in response.aiter_lines():
            yield line


async def with_curl(url: str, body: dict[str, Any]) -> Chunks:
    command = ["curl", "-sSN", "--noproxy", "*", url + CHAT, "-H", "Content-Type: application/json", "-d", "@-"]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(json.dumps(body).encode())
    process.stdin.close()
    try:
        async for line in process.stdout:
            yield line.decode().rstrip("\n")
    except BaseException:
        process.kill()
        raise
    finally:
        await process.wait()


async def with_openai(url: str, body: dict[str, Any]) -> Chunks:
    import openai

    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        try:
            async for chunk in await client.chat.completions.create(**body):
                yield f"data: {chunk.model_dump_json()}"
        except openai.APIError as error:
            yield "data: " + json.dumps({"error": {"message": str(error)}})
        else:
            yield "data: [DONE]"


STAND_INS: dict[str, Callable[[str, dict[str, Any]], Chunks]] = {
    "openai": with_openai,
    "curl": with_curl,
    "httpx": with_httpx,
}


class StandIn:
    """A client in this process, or one that is started for each answer."""

    version = ""

    def __init__(self, name: str, url: str) -> None:
        self.name, self._url = name, url

    async def pieces(self, body: dict[str, Any]) -> AsyncGenerator[tuple[float, Told], None]:
        """What it says of one answer, with the time at which it says it."""
        async with aclosing(STAND_INS[self.name](self._url, {**body, "stream": True})) as lines:  # type: ignore[type-var]
            async for line in lines:
                if line == "data: [DONE]":
                    yield time.perf_counter(), {"done": True}
                elif line.startswith("data: "):
                    found = json.loads(line.removeprefix("data: "))
                    yield time.perf_counter(), found if "error" in found else {"chunk": found}

    async def close(self) -> None:
        """There is nothing to end."""


PROGRAMS: dict[str, tuple[str, str]] = {
    "openai, Python": ("python", "openai_python_stream.py"),
    "openai, JavaScript": ("node", "openai_js_stream.mjs"),
    "llm": ("python", "llm_python_stream.py"),
}


class Program:
    """A real client in a process of its own, which is asked for one answer after another.

    Times are those at which the client got a piece, by its own reading of the clock that all processes share.
    """

    def __init__(self, name: str, process: asyncio.subprocess.Process, version: str) -> None:
        self.name, self.version, self._process = name, version, process

    @classmethod
    async def start(cls, name: str, url: str, home: Path, python: str, modules: Path) -> Self:
        """Start it, and wait until it can be asked. Raises `RuntimeError` if it does not start."""
        kind, program = PROGRAMS[name]
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "LLM_USER_PATH": str(home),
            "NO_PROXY": "127.0.0.1",
            "OUTRIDER_NODE_MODULES": str(modules.resolve()),
        }
        process = await asyncio.create_subprocess_exec(
            *(python if kind == "python" else "node", str(FOLDER / program), f"{url}/v1"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            cwd=home,
            env=environment,
            limit=1 << 20,
        )
        assert process.stdout is not None
        if not (line := await process.stdout.readline()):
            raise RuntimeError(f"{program} did not start; what it needs may be missing")
        return cls(name, process, json.loads(line)["version"])

    async def pieces(self, body: dict[str, Any]) -> AsyncGenerator[tuple[float, Told], None]:
        """What it says of one answer, with the time at which the client got it."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(body).encode() + b"\n")
        while line := await self._process.stdout.readline():
            told = json.loads(line)
            yield told.get("at", 0.0), told
            if "done" in told or "error" in told:
                return

    async def close(self) -> None:
        """End it."""
        self._process.kill()
        await self._process.wait()


@asynccontextmanager
async def opened(
    count: int, process: GatewayProcess, folder: Path, python: str | None, modules: Path | None
) -> AsyncIterator[list[StandIn | Program]]:
    """The first `count` clients of a gateway: the real ones, or what takes their places."""
    clients: list[StandIn | Program] = []
    try:
        if python is None or modules is None:
            clients += [StandIn(name, process.url) for name in list(STAND_INS)[:count]]
        else:
            for name in list(PROGRAMS)[:count]:
                clients.append(await Program.start(name, process.url, folder, python, modules))
        yield clients
    finally:
        for client in clients:
            await client.close()
