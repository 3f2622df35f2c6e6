"""Connections: which servers are this device itself, and the bundled model, a real process that the program starts."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from app.config import BUNDLED_DRAFTER, BUNDLED_TARGET, Folders, Settings
from app.remotes import own_server
from app.remotes.choice import UnusableSource
from app.remotes.connection import Connection
from app.remotes.loopback import Loopback
from app.remotes.own_server import NotServed, OwnServer, start_ahead, started_ahead
from app.remotes.registry import Remote, Remotes
from app.remotes.source import AddressSource, SourceFailed, stays_here
from app.reply.assistant import Assistant
from app.reply.routing import Options
from drafter.runtime import Drafter
from drafter.shelf import Drafters
from models.files import TARGET_GRAPH
from remote import Refused, VerifierClient
from storage import Store
from tests.support.conversing import ask
from tests.support.patience import PATIENCE_SECONDS
from tests.support.serving import REPOSITORY

SECONDS = 180.0


def lives(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    return True


async def test_it_warms_up_serves_and_leaves(tiny_pair: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "app.py").write_text("raise RuntimeError('the folder a person works in must not be imported from')")
    monkeypatch.chdir(tmp_path)
    source = Loopback(str(tiny_pair / "target"), str(tiny_pair / "drafter"))
    with Store.open(tmp_path / "outrider.db") as store:
        drafter = Drafter.load(tiny_pair / "drafter")
        async with Assistant(
            store, Options(Drafters(drafter), source, Settings(mode="edge", max_tokens=12))
        ) as assistant:
            heard = await ask(assistant, "list files")  # The question is sent at once, and waits for the verifier.
            assert heard.modes == ["warming", "edge"] and assistant.status().word == "local"
            assert all(heard.done.provenance)
            first = source.process_id
            assert first is not None and lives(first)
        assert source.process_id is None and not lives(first)


async def test_its_end_does_not_wait_for_who_else_holds_its_pipes(monkeypatch: pytest.MonkeyPatch) -> None:
    holds = "import subprocess, sys, time; subprocess.Popen(['sleep', '600']); time.sleep(600)"
    monkeypatch.setattr(own_server, "own_command", lambda *words, **module: [sys.executable, "-c", holds])
    monkeypatch.setattr(own_server, "END_SECONDS", 0.5)
    server = OwnServer(str(BUNDLED_TARGET), str(BUNDLED_DRAFTER))
    group = server.process_id
    assert group is not None
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await server.close()
        assert server.process_id is None
        with pytest.raises(NotServed):
            await server.url()
    finally:
        os.killpg(group, signal.SIGKILL)


async def test_a_close_that_nobody_waits_for_leaves_no_token(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    reads = "import sys; sys.stdin.read()"
    monkeypatch.setattr(own_server, "own_command", lambda *words, **module: [sys.executable, "-c", reads])
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    server = OwnServer(str(BUNDLED_TARGET), str(BUNDLED_DRAFTER))
    assert [*tmp_path.glob("*/token")]
    closing = asyncio.create_task(server.close())
    await asyncio.sleep(0)
    closing.cancel()
    async with asyncio.timeout(PATIENCE_SECONDS):
        await server.end()
    assert not [*tmp_path.iterdir()]


async def test_one_that_dies_is_started_again(tiny_pair: Path) -> None:
    source = Loopback(str(tiny_pair / "target"), str(tiny_pair / "drafter"))
    try:
        client = await source.client()
        assert await source.client() is client
        assert source.process_id is not None and source.url is not None
        async with VerifierClient(source.url) as stranger:  # Others on this device cannot use it.
            with pytest.raises(Refused) as refused:
                await stranger.card(SECONDS)
        assert refused.value.code == "unauthorised"
        os.kill(source.process_id, signal.SIGKILL)
        await source.gone()
        again = await source.client()
        assert again is not client
        assert (await again.card(SECONDS)).target == "target"
    finally:
        await source.close()


@pytest.mark.parametrize(
    ("target", "said"), [("a.gguf", r"needs llama.cpp: .*\.\[gguf\]"), ("weights", r"needs PyTorch: .*\.\[server\]")]
)
async def test_what_it_lacks_is_named(target: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SourceFailed, match=said):
        await Loopback(str(tmp_path / target), str(tmp_path)).client()


async def test_why_it_cannot_start(tiny_pair: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as full, pytest.raises(SourceFailed, match="could not be started: .*nowhere"):
        full.setattr("tempfile.tempdir", "/nowhere")
        await Loopback(str(tiny_pair / "target"), str(tiny_pair / "drafter")).client()
    with pytest.raises(SourceFailed, match="no model in"):
        await Loopback(str(tmp_path / "nowhere"), str(tiny_pair / "drafter")).client()
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / TARGET_GRAPH).write_bytes(b"junk")  # Without a graph it would load PyTorch first, for seconds.
    damaged = Loopback(str(tmp_path), str(tiny_pair / "drafter"))
    try:
        with pytest.raises(SourceFailed, match="did not start: .*" + tmp_path.name):
            await damaged.client()
        assert damaged.process_id is None
    finally:
        await damaged.close()


# ---- started ahead ---------------------------------------------------------------------------------------------------

ANOTHER = "http://127.0.0.1:9"


@pytest.fixture
def settings(tiny_pair: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr(own_server, "_ahead", {})  # Other tests of this process may have started some.
    return Settings(target=str(tiny_pair / "target"), drafter=str(tiny_pair / "drafter"))


async def test_it_ends_where_another_server_is_chosen_first_and_is_taken_once(
    settings: Settings, folders: Folders
) -> None:
    start_ahead(settings, folders)
    (ahead,) = own_server._ahead.values()
    await Loopback(settings.target, settings.drafter).close()
    assert ahead.process_id is None and not own_server._ahead
    start_ahead(settings.replaced({"mode": "offline"}, "the test"), folders)
    (ahead,) = own_server._ahead.values()
    source = Loopback(settings.target, settings.drafter)
    try:
        await source.client()
        assert source.process_id == ahead.process_id is not None
        assert started_ahead(settings.target, settings.drafter) is None
    finally:
        await source.close()
    assert ahead.process_id is None


ALONE = {"mode": "offline", "drafter": str(BUNDLED_DRAFTER)}
FETCHED = {"mode": "offline", "target": "somebody/a-model-of-the-hub"}


@pytest.mark.parametrize("changes", [ALONE, FETCHED, {"remote": ANOTHER}, {"target": "/nowhere"}, {}])
def test_settings_that_need_none_start_none(changes: dict[str, str], settings: Settings, folders: Folders) -> None:
    if not changes:
        Remotes(folders).put("work", Remote(url=ANOTHER))
        Remotes(folders).use("work")
    start_ahead(settings.replaced(changes, "the test"), folders)
    assert not own_server._ahead


def test_one_that_nobody_takes_ends_with_the_program(settings: Settings, tmp_path: Path) -> None:
    program = f"""
from pathlib import Path
from app.config import BUNDLED_DRAFTER, BUNDLED_TARGET, Folders, Settings
from app.remotes import own_server
folders = Folders(*(Path({str(tmp_path)!r}) / name for name in ("config", "data", "logs")))
own_server.start_ahead(Settings(target={settings.target!r}, drafter={settings.drafter!r}), folders)
(server,) = own_server._ahead.values()
print(server.process_id)
"""
    out = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=True, timeout=SECONDS
    )
    ends = time.monotonic() + SECONDS
    while lives(int(out.stdout)):
        assert time.monotonic() < ends, "it outlived the program"
        time.sleep(0.05)
    assert out.stderr == ""


# ---- connections -----------------------------------------------------------------------------------------------------


async def test_only_loopback_stays_here() -> None:
    here = ("http://127.0.0.1:8000", "http://localhost:11434/v1", "http://[::1]:8080")
    near = ("https://api.example.com/v1", "http://192.168.1.2:8000")
    for address in (*here, *near, "http://localhost.example.com", "http://127.0.0.1.example.com"):
        source = AddressSource(address)
        assert stays_here(source) is (address in here)
        await source.close()
    assert stays_here(None), "nobody is asked"


async def test_a_fault_of_ours_is_told_to_whoever_waits(tiny_pair: Path) -> None:
    """The task that connects would end with it, and answers would wait for ever."""

    class Faulty(UnusableSource):
        async def client(self) -> VerifierClient:
            raise AttributeError("no such thing")

    connection = Connection(Faulty(""), drafters=Drafters(Drafter.load(tiny_pair / "drafter")))
    connection.start()
    async with asyncio.timeout(PATIENCE_SECONDS):
        while connection.warming:
            await connection.changed()
    assert connection.verifier is None and connection.why == "connecting failed (AttributeError: no such thing)"
    await connection.close()
