"""Sittings at a real terminal: ask, lose the server, continue, leave, come back; the first one; and none at all."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from app.config import Folders
from app.local.registry import LocalModels
from app.remotes.registry import Remote, Remotes
from storage import Message, Store
from tests.pty.tmux import Tmux
from tests.support.fault_proxy import FaultProxy
from tests.support.faults import midway, refused
from tests.support.serving import REPOSITORY, VerifierProcess
from tests.support.terminal import Terminal

COMMAND = [sys.executable, "-m", "app.start"]
SIZE = 36, 120
QUESTION = "list files"
TOKENS = 120


def stored(database: Path) -> list[Message]:
    """The newest conversation as another program sees it."""
    if not database.exists():
        return []
    with Store.open(database) as store:
        return [message for one in store.conversations.all()[:1] for message in store.branches.thread(one.id)]


async def test_a_sitting(own: dict[str, str], verifier: VerifierProcess, tmp_path: Path) -> None:
    database = tmp_path / "data" / "outrider.db"
    async with FaultProxy([verifier.port]) as proxy:
        own |= {"OUTRIDER_REMOTE": proxy.url, "OUTRIDER_MODE": "auto", "OUTRIDER_MAX_TOKENS": str(TOKENS)}
        proxy.at(0, midway(refused))
        with Tmux(tmp_path / "tmux", COMMAND, own, REPOSITORY, SIZE) as tmux:
            await tmux.until(" online ")
            tmux.type(QUESTION)
            await tmux.until(QUESTION)
            tmux.press("Enter")
            await tmux.until(" offline")
            await tmux.until(" drafted")
            await tmux.until(lambda: stored(database)[-1].status == "done")
            await tmux.until(stored(database)[-1].text.split()[0])
            tmux.press("C-q")
            assert await tmux.ended() == 0, tmux.screen
    question, answer = stored(database)
    assert question.text == QUESTION and len(answer.tokens) == TOKENS and answer.text.strip()
    assert answer.provenance[0] and not answer.provenance[-1]


def test_a_crash_says_where_its_traceback_is(environment: dict[str, str], tmp_path: Path) -> None:
    program = (
        "import sys; sys.argv = ['outrider']\n"
        "from app.tui.widgets.status_bar import StatusBar\n"
        "def broken(self): return [][1]\n"
        "StatusBar.on_mount = broken\n"
        "from app.start import main; main()\n"
    )
    with Terminal([sys.executable, "-c", program], environment=environment, folder=REPOSITORY, size=SIZE) as terminal:
        assert terminal.end() == 1
    log = tmp_path / "logs" / "outrider.log"
    assert str(log) in "".join(terminal.text.split()) and "crashed" in terminal.text
    text = log.read_text()
    assert "builtins.IndexError" in text and " broken" in text and "critical" in text


async def test_a_model_on_this_device_answers_after_one_key(
    own: dict[str, str], tiny_pair: Path, tmp_path: Path
) -> None:
    given = {**own, "HOME": str(tmp_path), "OUTRIDER_MAX_TOKENS": "8"}
    del given["OUTRIDER_MODE"]
    folders = Folders.locate(given)
    LocalModels(folders).add("guide", tiny_pair / "target")
    (remotes := Remotes(folders)).put("far", Remote(url="http://127.0.0.1:9/v1", kind="openai"))
    remotes.use("far")
    with Tmux(tmp_path / "tmux", COMMAND, given, REPOSITORY, (24, 80)) as tmux:
        await tmux.until("guide on this device can answer while far is away:")
        tmux.press("F5")
        await tmux.until("enter ask guide")
        assert "can answer" not in tmux.screen
        tmux.type("how do I unpack it")
        await tmux.until("how do I unpack it")
        tmux.press("Enter")
        await tmux.until("all by guide on this device, not checked")
        tmux.press("C-q")
        assert await tmux.ended() == 0, tmux.screen
    assert LocalModels(folders).used == "guide"
    _, answer = stored(folders.database)
    assert answer.stats["stretches"] == [{"at": 0, "writer": "guide", "here": True}] and answer.text


@pytest.mark.parametrize(
    ("line", "kind", "said"),
    [
        ("chat --mode offline", "dumb", "TERM is"),
        ("< /dev/null", "xterm-256color", "needs a terminal"),
        ("| cat; exit ${PIPESTATUS[0]}", "xterm-256color", "needs a terminal"),
    ],
)
def test_a_terminal_that_only_prints_or_is_missing_at_one_end(tmp_path: Path, line: str, kind: str, said: str) -> None:
    environment = {**os.environ, "OUTRIDER_HOME": str(tmp_path)}
    command = ["bash", "-c", f"{sys.executable} -m app.start {line}"]
    with Terminal(command, environment=environment, folder=REPOSITORY, kind={"TERM": kind}) as terminal:
        assert terminal.end() == 2
    assert b"\x1b" not in terminal.raw and said in terminal.text and "outrider ask" in terminal.text
