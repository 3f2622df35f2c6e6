"""Sittings at a real terminal: ask, lose the server, continue, leave, come back; the first one; and none at all."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from app.config import BUNDLED_TARGET, Folders
from app.local.registry import LocalModels
from app.remotes.registry import Remote, Remotes
from storage import Message, Store
from tests.pty.tmux import Tmux
from tests.support.chat_server import ChatServer, Script
from tests.support.fault_proxy import FaultProxy
from tests.support.faults import midway, refused
from tests.support.patience import PATIENCE_SECONDS
from tests.support.serving import REPOSITORY, VerifierProcess
from tests.support.terminal import Terminal

COMMAND = [sys.executable, "-m", "app.start"]
SIZE = 36, 120
QUESTION = "list files"
TOKENS = 120


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
            await tmux.until(words(database)[0])
            tmux.press("F6")
            await tmux.until("Markdown, to read and to paste")
            tmux.press("Enter")
            await tmux.until("Exported")
            tmux.press("C-q")
            assert await tmux.ended() == 0, tmux.screen
    question, answer = stored(database)
    assert question.text == QUESTION and len(answer.tokens) == TOKENS and answer.text.strip()
    assert answer.provenance[0] and not answer.provenance[-1]
    (page,) = (tmp_path / "exports").glob("*.md")
    assert QUESTION in page.read_text() and words(database)[0] in page.read_text()
    everything = {**os.environ, **own}
    exported = subprocess.run([*COMMAND, "export", "--format", "json"], env=everything, capture_output=True, text=True)
    assert exported.returncode == 0 and QUESTION in exported.stdout and answer.id in exported.stdout


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


def stored(database: Path) -> list[Message]:
    """The newest conversation as another program sees it."""
    with Store.open(database) as store:
        return [message for one in store.conversations.all()[:1] for message in store.branches.thread(one.id)]


def words(database: Path) -> list[str]:
    """The text of the answer so far, if any."""
    return [word for message in stored(database)[1:] for word in message.text.split()]


# ---- the first start -------------------------------------------------------------------------------------------------


PROGRAM = """
import sys
from app.remotes import nearby
nearby.PORTS = ({port},)
nearby.look.__defaults__ = (nearby.PORTS, {seconds})
sys.argv = ["outrider"]
from app.start import main
main()
"""
"""The application, which looks at the port of the test."""


@dataclass
class CountedServer(ChatServer):
    """Counts all connections, with or without a question."""

    connections: int = 0

    async def _serve(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        await super()._serve(number, reader, writer)


async def test_from_nothing_to_an_answer(tiny_pair: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    given = {
        "OUTRIDER_HOME": str(home),
        "OUTRIDER_TARGET": str(tiny_pair / "target"),
        "OUTRIDER_DRAFTER": str(tiny_pair / "drafter"),
        "PYTHONPATH": str(REPOSITORY),
    }
    server = CountedServer([Script(["Unpack it ", "with tar."])])
    async with server.listening() as port:
        program = PROGRAM.format(port=port, seconds=PATIENCE_SECONDS)
        with Tmux(tmp_path / "tmux", [sys.executable, "-c", program], given, REPOSITORY, (24, 80)) as tmux:
            await tmux.until("f12 look for them   esc not now")
            assert server.connections == 0
            tmux.press("F12")
            await tmux.until(f"127.0.0.1:{port}")
            tmux.press("Enter")
            await tmux.until("Which model")
            tmux.press("Down", "Enter")
            await tmux.until("other at OpenAI-compatible server")
            tmux.type("how do I unpack it")
            await tmux.until("how do I unpack it")
            tmux.press("Enter")
            await tmux.until("Unpack it with tar.")
            tmux.press("C-q")
            assert await tmux.ended() == 0, tmux.screen
    assert server.asked[0]["model"] == "other"
    assert Remotes(Folders.locate({"OUTRIDER_HOME": str(home)})).used == "local"


# ---- a model on this device ------------------------------------------------------------------------------------------


async def test_a_model_on_this_device_answers_after_one_key(tiny_pair: Path, tmp_path: Path) -> None:
    home = {"OUTRIDER_HOME": str(tmp_path)}
    given = {
        **home,
        "HOME": str(tmp_path),
        "OUTRIDER_DRAFTER": str(tiny_pair / "drafter"),
        "OUTRIDER_MAX_TOKENS": "8",
        "PYTHONPATH": str(REPOSITORY),
    }
    folders = Folders.locate(home)
    LocalModels(folders).add("guide", BUNDLED_TARGET)
    remotes = Remotes(folders)
    remotes.put("far", Remote(url="http://127.0.0.1:9/v1", kind="openai"))
    remotes.use("far")
    with Tmux(tmp_path / "tmux", [sys.executable, "-m", "app.start"], given, REPOSITORY, (24, 80)) as tmux:
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
    with Store.read(folders.database) as store:
        (conversation,) = store.conversations.all()
        question, answer = store.branches.thread(conversation.id)
        assert answer.stats["stretches"] == [{"at": 0, "writer": "guide", "here": True}] and answer.text


# ---- terminals that show no screen -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "arguments"), [("dumb", []), ("unknown", ["chat", "--mode", "offline"])])
def test_a_terminal_that_only_prints(tmp_path: Path, kind: str, arguments: list[str]) -> None:
    environment = {**os.environ, "OUTRIDER_HOME": str(tmp_path)}
    with Terminal([*COMMAND, *arguments], environment=environment, folder=REPOSITORY, kind={"TERM": kind}) as terminal:
        assert terminal.end() == 2
    assert b"\x1b" not in terminal.raw
    assert "TERM is" in terminal.text and kind in terminal.text and "outrider ask" in terminal.text


@pytest.mark.parametrize("piped", ["stdin", "stdout"])
def test_no_terminal_at_one_end(tmp_path: Path, piped: str) -> None:
    """One end is piped, the other is a real terminal."""
    redirect = "< /dev/null" if piped == "stdin" else "| cat; exit ${PIPESTATUS[0]}"
    line = f"{sys.executable} -m app.start {redirect}"
    environment = {**os.environ, "OUTRIDER_HOME": str(tmp_path)}
    with Terminal(["bash", "-c", line], environment=environment, folder=REPOSITORY) as terminal:
        assert terminal.end() == 2
    assert b"\x1b" not in terminal.raw and "needs a terminal" in terminal.text and "outrider ask" in terminal.text
