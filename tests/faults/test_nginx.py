"""Two servers behind nginx, as deploy/nginx.conf has it: sessions stay where they are, and one that dies loses nothing.

Each device asks round by round while one of the servers is killed or drained. A round is then slower, not an error.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import trustme

from drafter.runtime import Drafter
from models.tree import DraftTree
from remote import TransportOptions, VerifierClient
from remote.protocol import Sampling
from tests.support.patience import PATIENCE_SECONDS
from tests.support.serving import REPOSITORY, VerifierProcess

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
pytestmark = pytest.mark.skipif(NGINX is None or sys.platform == "win32", reason="nginx is not installed")

RECIPE = REPOSITORY / "deploy" / "nginx.conf"
TOKEN = "0123456789abcdef-nginx"
DEVICES, TOKENS = 6, 24
"""Devices that ask at the same time, and tokens of each answer: one a round."""

MAIN = """
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 256; }}
http {{
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/outrider.conf;
}}
"""


def free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port: int = taken.getsockname()[1]
        return port


def written(folder: Path, port: int, servers: Sequence[int]) -> Path:
    """The recipe with a port, a certificate and servers of its own. Returns nginx's main file."""
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost")
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    certificate.cert_chain_pems[0].write_to_path(str(folder / "cert.pem"))
    certificate.private_key_pem.write_to_path(str(folder / "key.pem"))
    recipe = RECIPE.read_text(encoding="utf-8")
    changes = {
        "listen 443 ssl;": f"listen 127.0.0.1:{port} ssl;",
        "server_name outrider.example;": "server_name localhost;",
        "/etc/outrider/": f"{folder}/",
        "127.0.0.1:8001": f"127.0.0.1:{servers[0]}",
        "127.0.0.1:8002": f"127.0.0.1:{servers[1]}",
    }
    for old, new in changes.items():
        assert old in recipe
        recipe = recipe.replace(old, new)
    (folder / "outrider.conf").write_text(recipe)
    main = folder / "nginx.conf"
    main.write_text(MAIN.format(folder=folder))
    return main


@dataclass
class Proxied:
    """Two servers and the proxy before them."""

    servers: list[VerifierProcess]
    url: str
    ca: Path

    def client(self) -> VerifierClient:
        options = TransportOptions(ca=self.ca, read_seconds=PATIENCE_SECONDS)
        return VerifierClient(self.url, TOKEN, options=options)

    def counted(self, server: VerifierProcess, name: str) -> int:
        reply = httpx.get(
            f"{server.url}/metrics",
            headers={"authorization": f"Bearer {TOKEN}"},
            timeout=PATIENCE_SECONDS,
            trust_env=False,
        )
        found = re.search(rf"^outrider_{name} ([\d.]+)$", reply.text, re.MULTILINE)
        assert found is not None
        return int(float(found[1]))


@pytest.fixture
def proxied(tiny_pair: Path, tmp_path: Path) -> Iterator[Proxied]:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"{TOKEN}\n")
    servers = [VerifierProcess(tiny_pair, token_file=tokens) for _ in range(2)]
    process: subprocess.Popen[bytes] | None = None
    try:
        for server in servers:
            server.start()
        port = free_port()
        main = written(tmp_path, port, [server.port for server in servers])
        process = subprocess.Popen([str(NGINX), "-c", str(main), "-e", str(tmp_path / "error.log")])
        until = time.monotonic() + PATIENCE_SECONDS
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            assert process.poll() is None and time.monotonic() < until, (tmp_path / "error.log").read_text()
            time.sleep(0.02)
        assert "warn" not in (tmp_path / "error.log").read_text()
        yield Proxied(servers, f"https://localhost:{port}", tmp_path / "ca.pem")
    finally:
        if process is not None:
            process.terminate()
            process.wait(PATIENCE_SECONDS)
        for server in servers:
            server.stop()


async def answer(client: VerifierClient, prompt: list[int], rounds: list[int]) -> list[int]:
    """What the target says after a prompt, round by round. `rounds` counts those of all devices."""
    session, tokens = client.session(), list[int]()
    while len(tokens) < TOKENS:
        reply = await session.round(
            [*prompt, *tokens], DraftTree.empty(), Sampling(), memory_from=None, deadline=PATIENCE_SECONDS
        )
        async for _ in reply.memory:
            pass
        assert reply.verdict.bonus is not None
        tokens.append(reply.verdict.bonus)
        rounds.append(len(rounds))
    return tokens


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
async def test_a_session_stays_with_one_server_and_no_answer_fails_where_one_ends_under_load(
    proxied: Proxied, drafter: Drafter, how: signal.Signals
) -> None:
    prompts = [drafter.text.render([("user", f"list {number} files")]) for number in range(DEVICES)]
    async with proxied.client() as client:
        whole = await asyncio.gather(*(answer(client, prompt, []) for prompt in prompts))
        before = [proxied.counted(server, "rounds_total") for server in proxied.servers]
        assert sum(before) == DEVICES * TOKENS
        assert all(count % TOKENS == 0 for count in before), "no session changed its server"
        assert sum(proxied.counted(server, "conflicts_total") for server in proxied.servers) == 0
        rounds: list[int] = []
        working = [asyncio.create_task(answer(client, prompt, rounds)) for prompt in prompts]
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(rounds) < DEVICES * TOKENS // 3:
                await asyncio.sleep(0)
        now = [proxied.counted(server, "rounds_total") for server in proxied.servers]
        busier = max(range(2), key=lambda index: now[index] - before[index])
        proxied.servers[busier].signal(how)
        assert await asyncio.gather(*working) == whole
        other = proxied.servers[1 - busier]
        assert await answer(client, prompts[0], []) == whole[0]
    assert proxied.counted(other, "rounds_total") > before[1 - busier]
