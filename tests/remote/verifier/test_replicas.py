"""Several replicas on a real Ray: sessions keep theirs, and one that is killed costs its sessions one slower round.

Without `ray[serve]` these tests are skipped; tests/remote/verifier/test_replica_start.py tests the choice without it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
import trustme

from app.config import ChosenMode, Settings
from drafter.runtime import Drafter
from models.tree import DraftTree
from remote import RemoteSession, RoundReply, VerifierClient
from remote.protocol import Sampling
from tests.remote.verifier.test_http import counter
from tests.support.conversing import ask, assistant, until_connected
from tests.support.patience import PATIENCE_SECONDS
from tests.support.ray_processes import command, descendants, replicas_of
from tests.support.serving import REPOSITORY, VerifierProcess

pytest.importorskip("ray.serve")
pytestmark = [pytest.mark.faults, pytest.mark.skipif(not Path("/proc").is_dir(), reason="replicas are found in /proc")]
QUESTIONS = ["how do I list files", "unpack photos.tar.gz", "who uses the port 8000", "find large files here"]
MOST_TOKENS = 100
PROMPT = [5, 6, 7, 8]
LONG_SECONDS = 3 * PATIENCE_SECONDS
"""The longest wait for Ray: it starts several processes, one of which imports PyTorch."""


class RayProcess(VerifierProcess):
    """`outrider serve --replicas 2`. It ends as its stdin does, and takes Ray along."""

    def stop(self) -> None:
        if self._process is not None:
            rest, _ = self._process.communicate(timeout=LONG_SECONDS)
            self._process = None
            assert rest == "", "stdout has more than the address"


@pytest.fixture(scope="module")
def served(tiny_pair: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayProcess]:
    said = tmp_path_factory.mktemp("ray") / "said"
    process = RayProcess(tiny_pair, options=["--replicas", "2"], said=said)
    try:
        process.start()
    except AssertionError:
        raise AssertionError(said.read_text()) from None
    yield process
    ray = descendants(process.id)
    process.stop()
    assert not [left for left in ray if "ray" in command(left)], "Ray runs on"


async def played(session: RemoteSession, tokens: list[int]) -> RoundReply:
    reply = await session.round(tokens, DraftTree.empty(), Sampling(), memory_from=None, deadline=PATIENCE_SECONDS)
    async for _ in reply.memory:
        pass
    return reply


async def test_a_session_stays_with_its_replica(served: RayProcess):
    async with VerifierClient(served.url) as client:
        for _ in range(8):
            session, tokens = client.session(), list(PROMPT)
            for number in range(4):
                reply = await played(session, tokens)
                # Another replica would have answered 409, which takes a second exchange.
                assert reply.exchanges == 1, f"round {number}"
                tokens.append(reply.verdict.bonus)


async def test_a_client_that_hangs_up_stops_its_answer(served: RayProcess):
    named = {"x-session-id": "one that hangs up"}
    body = {"model": "target", "messages": [{"role": "user", "content": "go on"}], "stream": True, "max_tokens": 900}
    async with httpx.AsyncClient(base_url=served.url, timeout=PATIENCE_SECONDS, headers=named) as plain:
        before, times = await counter(plain, "new_tokens_total"), 10
        for _ in range(times):
            async with plain.stream("POST", "/v1/chat/completions", json=body) as answer:
                async for _ in answer.aiter_lines():
                    break  # The first words come before the rest is written.
        async with asyncio.timeout(PATIENCE_SECONDS):
            while await counter(plain, "running_sessions"):
                await asyncio.sleep(0.05)
        assert await counter(plain, "new_tokens_total") - before < times * 900


# ---- a replica dies --------------------------------------------------------------------------------------------------


@dataclass
class Device:
    """What one device has heard: questions with their answers, and failures."""

    texts: list[tuple[str, str]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    async def converse(
        self, url: str, drafter: Drafter, database: Path, mode: ChosenMode, enough: asyncio.Event
    ) -> None:
        """Ask one question after another, each in a conversation of its own, until there is `enough`."""
        settings = Settings(max_tokens=MOST_TOKENS, mode=mode)
        async with assistant(drafter, database, url, settings=settings) as opened:
            await until_connected(opened)
            while not enough.is_set():
                question = QUESTIONS[len(self.texts) % len(QUESTIONS)]
                heard = await ask(opened, question)
                if heard.failed is not None:
                    self.failures.append(heard.failed.message)
                self.texts.append((question, heard.text))


@asynccontextmanager
async def devices(
    url: str, drafter: Drafter, folder: Path, modes: list[ChosenMode], enough: asyncio.Event
) -> AsyncIterator[list[Device]]:
    """Devices that converse while the block runs, and until each has come to the end of its answer."""
    found = [Device() for _ in modes]
    async with asyncio.TaskGroup() as tasks:
        for number, (device, mode) in enumerate(zip(found, modes)):
            tasks.create_task(device.converse(url, drafter, folder / f"{number}.db", mode, enough))
        yield found
        enough.set()


async def until(what: str, holds: object) -> None:
    try:
        async with asyncio.timeout(LONG_SECONDS):
            while not holds():  # type: ignore[operator]
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError(f"never came: {what}") from None


async def test_a_replica_that_is_killed_fails_no_answer(
    served: RayProcess, verifier: VerifierProcess, tiny_pair: Path, tmp_path: Path
):
    drafter = Drafter.load(tiny_pair / "drafter")
    alone, one_each = Device(), asyncio.Event()
    reference = asyncio.create_task(alone.converse(verifier.url, drafter, tmp_path / "alone.db", "edge", one_each))
    await until("the reference", lambda: len(alone.texts) >= len(QUESTIONS) - 1)
    one_each.set()
    await reference
    expected = dict(alone.texts)
    assert len(expected) == len(QUESTIONS) and all(expected.values()) and not alone.failures

    modes: list[ChosenMode] = ["edge", "edge", "hosted", "hosted", "auto", "auto"]
    async with devices(served.url, drafter, tmp_path, modes, asyncio.Event()) as talking:
        for _ in range(2):  # The replica that took over is among those that may be killed next.
            done = [len(device.texts) for device in talking]
            await until("answers", lambda done=done: all(len(d.texts) > n + 1 for d, n in zip(talking, done)))
            before = replicas_of(served.id)
            assert len(before) == 2
            os.kill(min(before), signal.SIGKILL)
            await until("another replica", lambda before=before: len(replicas_of(served.id) - before) == 1)
        done = [len(device.texts) for device in talking]
        await until("more answers", lambda: all(len(d.texts) > n + 1 for d, n in zip(talking, done)))
    answers = [answer for device in talking for answer in device.texts]
    assert [said for device in talking for said in device.failures] == []
    assert [answer for answer in answers if answer[1] != expected[answer[0]]] == []


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


# ---- the start -------------------------------------------------------------------------------------------------------


async def test_tokens_and_tls_count_through_the_proxy(tiny_pair: Path, tmp_path: Path):
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    certificate.private_key_pem.write_to_path(tmp_path / "key.pem")
    (tmp_path / "token").write_text("a token of enough letters\n".replace(" ", "-"))
    options = ["--replicas", "1", "--tls-cert", str(tmp_path / "cert.pem"), "--tls-key", str(tmp_path / "key.pem")]
    trust = ssl.create_default_context()
    authority.configure_trust(trust)
    with RayProcess(tiny_pair, token_file=tmp_path / "token", options=options) as served:
        async with httpx.AsyncClient(base_url=f"https://127.0.0.1:{served.port}", verify=trust, timeout=60) as plain:
            assert (await plain.get("/healthz")).status_code == 200
            assert (await plain.get("/v1/card")).status_code == 401
            shown = {"authorization": "Bearer a-token-of-enough-letters"}
            assert (await plain.get("/v1/card", headers=shown)).status_code == 200


async def test_a_cluster_that_runs_already_is_joined_and_left_as_it_was(
    tiny_pair: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    address = f"127.0.0.1:{free_port()}"
    line = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", "--num-cpus", "2"]
    line += ["--port", address.rpartition(":")[2], "--include-dashboard", "false"]
    with open(tmp_path / "ray", "wb") as said:
        cluster = subprocess.Popen(line, stdout=said, stderr=said, start_new_session=True)
    try:
        await until("the cluster", lambda: b"runtime started" in (tmp_path / "ray").read_bytes())
        monkeypatch.setenv("RAY_ADDRESS", address)
        said = tmp_path / "said"
        served = RayProcess(tiny_pair, options=["--replicas", "2"], said=said)
        served.port = free_port()
        try:
            served.start()
        except AssertionError:
            raise AssertionError(said.read_text()) from None
        async with VerifierClient(served.url) as client:
            session = client.session()
            first = await played(session, list(PROMPT))
            assert (await played(session, [*PROMPT, first.verdict.bonus])).exchanges == 1  # type: ignore[list-item]
        served.stop()
        asked = "import ray; ray.init(logging_level=40); print(ray.util.list_named_actors(all_namespaces=True))"
        left = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, timeout=LONG_SECONDS)
        assert left.stdout.strip() == "[]", left.stdout + left.stderr
    finally:
        cluster.send_signal(signal.SIGTERM)
        cluster.wait(LONG_SECONDS)


def test_a_model_that_cannot_be_loaded_is_named(tmp_path: Path):
    line = [sys.executable, "-m", "app.cli", "serve", "--replicas", "2", "--port", "0", "--no-drafter"]
    line += ["--model", str(tmp_path / "nothing here")]
    ended = subprocess.run(line, capture_output=True, text=True, cwd=REPOSITORY, timeout=LONG_SECONDS)
    assert ended.returncode == 1 and ended.stdout == ""
    last = ended.stderr.strip().splitlines()[-1]
    assert "nothing here" in last and "Traceback" not in ended.stderr
