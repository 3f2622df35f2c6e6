"""The process of a model on this device: it is killed, its file is deleted, nobody needs it, it does not fit."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.cli.own_server import NICENESS
from app.config import Settings
from app.events import ModeChanged, Stretch, Verified
from app.remotes import loopback
from app.remotes.loopback import LocalModel
from app.reply import routing
from app.reply.assistant import Assistant
from tests.app.reply.conftest import Connect
from tests.app.reply.test_stand_in import QUESTION, rest_of
from tests.support.chat_server import ChatServer
from tests.support.conversing import Heard, ask, until
from tests.support.serving import VerifierProcess

MOST = 400
"""More tokens than a tiny model has written when its first word is read here."""
SETTINGS = Settings(offline="local", max_tokens=MOST, temperature=0.0)


@pytest.fixture
async def away() -> AsyncIterator[int]:
    """A server that is out of reach."""
    async with ChatServer([], away=True).listening() as port:
        yield port


@pytest.fixture
def target(tiny_pair: Path, tmp_path: Path) -> Path:
    """A model's folder, with the weights that another program reads, which take no memory here, and a dead link."""
    folder = Path(shutil.copytree(tiny_pair / "target", tmp_path / "target"))
    (folder / "pytorch_model.bin").touch()
    os.truncate(folder / "pytorch_model.bin", 1 << 42)
    (folder / "notes.txt").symlink_to("nowhere")
    return folder


async def killed(opened: Assistant, source: LocalModel, *, deleted: bool = False) -> tuple[Heard, list[str]]:
    """An answer whose writer is killed at its first word, and the text that was there at each change of the mode."""
    begun, process = list[str](), None

    def watch(heard: Heard) -> None:
        nonlocal process
        if isinstance(heard.last, ModeChanged) and heard.last.mode == "offline":
            begun.append(heard.text)
        if isinstance(heard.last, Verified) and heard.last.text and process is None:
            process = source.process_id
            assert process is not None
            assert os.getpriority(os.PRIO_PROCESS, process) == min(19, os.nice(0) + NICENESS)
            os.kill(process, signal.SIGKILL)
            if deleted:
                shutil.rmtree(source.path)

    return await ask(opened, QUESTION, watch=watch), begun


async def test_killed_while_it_writes_it_is_started_again_and_goes_on(
    stands_in: Connect, away: int, target: Path, verifier: VerifierProcess
) -> None:
    source = LocalModel("small one", target)
    async with stands_in(away, source, SETTINGS) as opened:
        heard, begun = await killed(opened, source)
    first, reached = dict.fromkeys(begun)  # It may also say there that its model is reasoning.
    assert first == "" and 0 < len(reached) < len(heard.text)
    assert heard.text == reached + await rest_of(verifier, reached, MOST), "nothing is lost or doubled"
    assert heard.done.stretches == (Stretch(0, "small one", here=True),)


async def test_its_file_is_deleted_and_it_is_killed(stands_in: Connect, away: int, target: Path) -> None:
    source = LocalModel("small one", target)
    async with stands_in(away, source, SETTINGS) as opened:
        heard, _ = await killed(opened, source, deleted=True)
        stored = opened.store.messages.get(heard.message)
    assert heard.failed is not None and f"small one is not in {target} any more" in heard.failed.message
    assert heard.text and stored.text == heard.text, "what it had written is kept"


async def test_it_ends_when_nobody_needs_it_and_starts_again(
    stands_in: Connect, away: int, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routing, "IDLE_SECONDS", 0.1)
    source = LocalModel("small one", target)
    async with stands_in(away, source, SETTINGS.replaced({"max_tokens": 24}, "test")) as opened:
        first = await ask(opened, QUESTION)
        assert first.done
        await until(lambda: source.process_id is None)
        assert (await ask(opened, QUESTION)).text == first.text


async def test_what_does_not_fit_into_memory_is_not_started(
    stands_in: Connect, away: int, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loopback, "ROOM_BYTES", 1 << 60)
    source = LocalModel("small one", target)
    async with stands_in(away, source, SETTINGS) as opened:
        heard = await ask(opened, QUESTION)
        assert heard.failed is not None and "small one needs 1152921504.6 GB of memory, and" in heard.failed.message
        assert source.process_id is None and source.url is None
