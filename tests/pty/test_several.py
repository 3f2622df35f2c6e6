"""Three answers at once and a question behind one of them, in a program that is killed and started again."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from storage import Message, Store
from tests.pty.tmux import Tmux
from tests.support.chat_server import ChatServer, Script
from tests.support.serving import REPOSITORY

COMMAND = [sys.executable, "-m", "app.start"]
QUESTIONS = ("alpha", "beta", "gamma")
LAST = "and delta"


def stored(database: Path) -> dict[str, list[Message]]:
    """The messages of each conversation, by its first question."""
    with Store.open(database) as store:
        found = [store.branches.thread(one.id) for one in store.conversations.all()]
    return {thread[0].text: thread for thread in found if thread}


def noting(file: Path) -> list[str]:
    """The command, which writes its process id to a file."""
    return ["sh", "-c", f"echo $$ > {shlex.quote(str(file))}; exec {shlex.join(COMMAND)}"]


def words(count: int) -> Iterator[str]:
    return (f"word{at} " for at in range(count))


async def test_a_kill_loses_and_doubles_nothing(own: dict[str, str], tmp_path: Path) -> None:
    database = tmp_path / "data" / "outrider.db"
    server = ChatServer([*(Script(list(words(1000)), pause=0.1) for _ in QUESTIONS), Script(["the ", "end"])])
    async with server.listening() as port:
        own |= {"OUTRIDER_REMOTE": f"http://127.0.0.1:{port}/v1", "OUTRIDER_MODE": "auto"}
        with Tmux(tmp_path / "first", noting(tmp_path / "pid"), own, REPOSITORY, (36, 120)) as tmux:
            for question in QUESTIONS:
                tmux.press("C-n")
                await tmux.until(" online ")
                tmux.type(question)
                tmux.press("Enter")
                await tmux.until(lambda: question in stored(database))  # noqa: B023
            tmux.type(LAST)
            tmux.press("Enter")
            await tmux.until("queued: asked when this answer ends")
            await tmux.until(lambda: all(thread[1].text for thread in stored(database).values()))
            os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
            assert await tmux.ended() == 137
        killed = stored(database)
        assert sorted(killed) == sorted(QUESTIONS)
        with Tmux(tmp_path / "second", COMMAND, own, REPOSITORY, (24, 80)) as tmux:
            await tmux.until(lambda: len(stored(database)["gamma"]) == 4 and stored(database)["gamma"][3].finished)
            tmux.press("C-q")
            assert await tmux.ended() == 0, tmux.screen
    after = stored(database)
    for question in QUESTIONS:
        assert [message.id for message in after[question][:2]] == [message.id for message in killed[question]]
        assert after[question][1].status == "stopped" and after[question][1].text == killed[question][1].text
    assert [message.text for message in after["gamma"][2:]] == [LAST, "the end"]
    asked = Counter(one["messages"][-1]["content"] for one in server.asked)
    assert asked == dict.fromkeys((*QUESTIONS, LAST), 1)
    with Store.open(database) as store:
        assert store.queue.all() == []
