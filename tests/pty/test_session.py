"""A session at a real terminal: ask, read, lose the verifier, continue, leave, and find everything again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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
