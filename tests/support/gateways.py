"""A real gateway process on loopback, for tests that talk to it as other programs do."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import httpx

from tests.support.patience import PATIENCE_SECONDS
from tests.support.serving import REPOSITORY

CHAT = "/v1/chat/completions"


class GatewayProcess:
    """`outrider gateway` with a drafter's folder. `remote`: address of its server; None: it works offline.

    `home`: the program's own folders. `options`: more of them. `settings`: values of its settings.
    """

    def __init__(
        self,
        home: Path,
        drafter: Path,
        remote: str | None,
        options: Sequence[str] = (),
        settings: Mapping[str, str] = {},
    ) -> None:
        self.home = home
        kept = {name: value for name, value in os.environ.items() if not name.startswith("OUTRIDER_")}
        self._environment = kept | {
            "OUTRIDER_HOME": str(home),
            "OUTRIDER_DRAFTER": str(drafter),
            "OUTRIDER_MAX_TOKENS": "60",
            **{f"OUTRIDER_{name.upper()}": value for name, value in settings.items()},
        }
        where = ["--mode", "offline"] if remote is None else ["--remote", remote]
        self._command = [sys.executable, "-m", "app.cli", "gateway", "--port", "0", *where, *options]
        self._process: subprocess.Popen[str] | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def process(self) -> subprocess.Popen[str]:
        assert self._process is not None
        return self._process

    def __enter__(self) -> Self:
        self.home.mkdir(parents=True, exist_ok=True)
        with open(self.home / "said", "ab") as said:
            pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": said}
            self._process = subprocess.Popen(self._command, text=True, cwd=REPOSITORY, env=self._environment, **pipes)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        found = re.search(r"ready at http://127\.0\.0\.1:(\d+)$", line.strip())
        assert found is not None, f"the gateway did not start: {line!r}, {self.said}"
        self.port = int(found[1])
        return self

    def __exit__(self, *raised: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(self, *raised: object) -> None:
        # In a thread, so that a proxy in this loop sees its connections end before it ends itself.
        await asyncio.to_thread(self.__exit__, *raised)

    @property
    def said(self) -> str:
        return (self.home / "said").read_text(encoding="utf-8")

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def client(self) -> httpx.AsyncClient:
        """A client with a patient read timeout."""
        return httpx.AsyncClient(base_url=self.url, timeout=PATIENCE_SECONDS, trust_env=False, verify=False)


@dataclass
class Streamed:
    """What a client has read of a streamed answer."""

    chunks: list[dict[str, Any]] = field(default_factory=list)
    error: dict[str, Any] | None = None
    ended: bool = False
    """The event that ends a stream has come."""

    def take(self, line: str) -> dict[str, Any] | None:
        """Read one line of the stream; returns the chunk that it holds."""
        if not line.startswith("data: "):
            return None
        if line == "data: [DONE]":
            self.ended = True
            return None
        found: dict[str, Any] = json.loads(line.removeprefix("data: "))
        if "error" in found:
            self.error = found["error"]
            return None
        self.chunks.append(found)
        return found

    @property
    def text(self) -> str:
        return "".join(text_of(chunk) for chunk in self.chunks)

    @property
    def finish(self) -> str | None:
        return next((one["choices"][0]["finish_reason"] for one in reversed(self.chunks) if one["choices"]), None)

    @property
    def marks(self) -> dict[str, Any]:
        marks: dict[str, Any] = self.chunks[-1]["outrider"]
        return marks

    @property
    def sources(self) -> list[str]:
        """Who stood behind each character when it was sent."""
        return [chunk["outrider"]["source"] for chunk in self.chunks for _ in text_of(chunk)]


def text_of(chunk: Mapping[str, Any]) -> str:
    return "".join(choice["delta"].get("content") or "" for choice in chunk["choices"])


async def stream(client: httpx.AsyncClient, body: Mapping[str, Any]) -> AsyncIterator[tuple[Streamed, str]]:
    """Each piece of text as it comes, with all that has been read so far; an empty one at the end."""
    read = Streamed()
    async with client.stream("POST", CHAT, json={**body, "stream": True}) as response:
        assert response.status_code == 200, (await response.aread()).decode()
        async for line in response.aiter_lines():
            chunk = read.take(line)
            if chunk is not None and (text := text_of(chunk)):
                yield read, text
    yield read, ""


async def stream_to_end(client: httpx.AsyncClient, body: Mapping[str, Any]) -> Streamed:
    read = Streamed()
    async for found, _ in stream(client, body):
        read = found
    return read
