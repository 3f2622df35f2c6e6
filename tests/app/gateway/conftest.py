"""Gateways behind a line that fails on demand, and what the model says by itself."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.chat_server import ChatServer, Script
from tests.support.fault_proxy import FaultProxy
from tests.support.gateways import CHAT, GatewayProcess
from tests.support.patience import PATIENCE_SECONDS
from tests.support.serving import VerifierProcess
from tests.support.shells import served

Opened = Callable[..., Any]
Relaying = tuple[ChatServer, GatewayProcess]


@pytest.fixture(scope="session")
def gateway(
    tiny_pair: Path, verifier: VerifierProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GatewayProcess]:
    """A gateway with a server, for all tests. Pages of one origin may ask it."""
    home, options = tmp_path_factory.mktemp("gateway"), ["--allow-origin", "app://obsidian.md"]
    with GatewayProcess(home, tiny_pair / "drafter", verifier.url, options) as process:
        yield process


@pytest.fixture(scope="session")
def relaying(tiny_pair: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Relaying]:
    """A server that checks no drafts, and a gateway in front of it. Its tests share it, and say what it answers."""
    server, home = ChatServer([]), tmp_path_factory.mktemp("relaying")
    with served(server) as address, GatewayProcess(home, tiny_pair / "drafter", address) as process:
        yield server, process


@asynccontextmanager
async def between(relaying: Relaying, *scripts: Script) -> AsyncIterator[tuple[ChatServer, httpx.AsyncClient]]:
    """That server, which answers so from now on, and a client of the gateway."""
    server, gateway = relaying
    server.scripts, server.refuses = scripts, ""
    server.asked.clear()
    async with gateway.client() as client:
        yield server, client


@pytest.fixture
async def client(gateway: GatewayProcess) -> AsyncIterator[httpx.AsyncClient]:
    async with gateway.client() as client:
        yield client


@pytest.fixture
def running(tiny_pair: Path, tmp_path: Path) -> Opened:
    """Opens a gateway with this server, if any, and a client of it. `folder`: of its drafter."""

    @asynccontextmanager
    async def opened(
        remote: str | None, *options: str, home: str = "home", folder: Path = tiny_pair / "drafter", **settings: str
    ) -> AsyncIterator[tuple[GatewayProcess, httpx.AsyncClient]]:
        process = GatewayProcess(tmp_path / home, folder, remote, options, settings)
        async with process, process.client() as client:
            yield process, client

    return opened


@pytest.fixture
def behind_a_line(running: Opened, verifier: VerifierProcess) -> Opened:
    """Opens a proxy, a gateway that reaches its server through it, and a client of that gateway.

    The model has been seen: the drafter fits it.
    """

    @asynccontextmanager
    async def opened(
        *options: str, **settings: str
    ) -> AsyncIterator[tuple[FaultProxy, GatewayProcess, httpx.AsyncClient]]:
        async with FaultProxy([verifier.port]) as proxy, running(proxy.url, *options, **settings) as (process, client):
            await client.get("/v1/models")
            yield proxy, process, client

    return opened


async def own_text(verifier: VerifierProcess, messages: list[dict[str, str]], most: int) -> str:
    """What the target says by itself, greedily, to other clients."""
    async with httpx.AsyncClient(base_url=verifier.url, timeout=PATIENCE_SECONDS, trust_env=False) as client:
        body = {"messages": messages, "temperature": 0, "max_tokens": most}
        answered = await client.post(CHAT, json=body)
    text: str = answered.json()["choices"][0]["message"]["content"]
    return text


async def settled(client: httpx.AsyncClient, place: str) -> dict[str, Any]:
    """What became of an answer, as soon as the model has checked it."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            report: dict[str, Any] = (await client.get(place)).json()
            if report["state"] not in ("writing", "waiting"):
                return report
            await asyncio.sleep(0.05)
