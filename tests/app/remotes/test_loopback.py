"""The bundled model, as a real process that the program starts."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from app.config import Settings
from app.remotes.loopback import Loopback
from app.remotes.source import SourceFailed
from app.reply.assistant import Assistant
from app.reply.routing import Options
from drafter.runtime import Drafter
from drafter.shelf import Drafters
from remote import Refused, VerifierClient
from storage import Store
from tests.support.conversing import ask

SECONDS = 180.0


def lives(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    return True


async def test_it_warms_up_serves_and_leaves_with_us(
    tiny_pair: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "app.py").write_text("raise RuntimeError('the folder a person works in must not be imported from')")
    monkeypatch.chdir(tmp_path)
    source = Loopback(str(tiny_pair / "target"), str(tiny_pair / "drafter"))
    with Store.open(tmp_path / "outrider.db") as store:
        drafter = Drafter.load(tiny_pair / "drafter")
        async with Assistant(
            store, Options(Drafters(drafter), source, Settings(mode="edge", max_tokens=12))
        ) as assistant:
            heard = await ask(assistant, "list files")  # The question is sent at once, and waits for the verifier.
            assert heard.modes == ["warming", "edge"]
            assert heard.done is not None and all(heard.done.provenance)
            first = source.process_id
            assert first is not None and lives(first)
        assert source.process_id is None and not lives(first)


async def test_one_that_dies_is_started_again(tiny_pair: Path) -> None:
    source = Loopback(str(tiny_pair / "target"), str(tiny_pair / "drafter"))
    try:
        client = await source.client()
        assert await source.client() is client
        assert source.process_id is not None
        os.kill(source.process_id, signal.SIGKILL)
        await source.gone()
        again = await source.client()
        assert again is not client
        assert (await again.card(SECONDS)).target == "target"
    finally:
        await source.close()


async def test_others_on_this_device_cannot_use_it(tiny_pair: Path) -> None:
    source = Loopback(str(tiny_pair / "target"), str(tiny_pair / "drafter"))
    try:
        assert (await (await source.client()).card(SECONDS)).target == "target"
        assert source.url is not None
        async with VerifierClient(source.url) as stranger:
            with pytest.raises(Refused) as refused:
                await stranger.card(SECONDS)
        assert refused.value.code == "unauthorised"
    finally:
        await source.close()


@pytest.mark.parametrize(
    ("target", "said"), [("a.gguf", r"needs llama.cpp: .*\.\[gguf\]"), ("weights", r"needs PyTorch: .*\.\[server\]")]
)
async def test_what_is_not_installed_is_named(
    target: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SourceFailed, match=said):
        await Loopback(str(tmp_path / target), str(tmp_path)).client()


async def test_a_disk_that_takes_nothing_is_told(tiny_pair: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/nowhere")
    with pytest.raises(SourceFailed, match="could not be started: .*nowhere"):
        await Loopback(str(tiny_pair / "target"), str(tiny_pair / "drafter")).client()


async def test_why_it_cannot_start(tiny_pair: Path, tmp_path: Path) -> None:
    with pytest.raises(SourceFailed, match="no model in"):
        await Loopback(str(tmp_path / "nowhere"), str(tiny_pair / "drafter")).client()
    (tmp_path / "config.json").write_text("{}")
    damaged = Loopback(str(tmp_path), str(tiny_pair / "drafter"))
    try:
        with pytest.raises(SourceFailed, match="did not start: .*" + tmp_path.name):
            await damaged.client()
        assert damaged.process_id is None
    finally:
        await damaged.close()
