"""`outrider ask` among other programs: real processes, pipes and signals, and the stored result."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from app.attachments.documents import OLD_OFFICE
from storage import Message, Store
from tests.support.chat_server import ChatServer, Script
from tests.support.commands import Outrider
from tests.support.patience import PATIENCE_SECONDS
from tests.support.serving import REPOSITORY

COMMAND = [sys.executable, "-m", "app.start", "ask"]
SECRET = "xylophone"
LINES = ["first line\n", "second line\n", "and a half"]


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_MODE", "offline")
    monkeypatch.setenv("OUTRIDER_MAX_TOKENS", "4")


@pytest.fixture
def environment(outrider: Outrider) -> dict[str, str]:
    """The variables of a process of its own."""
    return dict(os.environ)


def threads(home: Path) -> list[list[Message]]:
    """All conversations, the newest first."""
    with Store.open(home / "data" / "outrider.db") as store:
        return [store.branches.thread(one.id) for one in store.conversations.all()]


def start(environment: dict[str, str], *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *arguments], cwd=REPOSITORY, env=environment, stdin=subprocess.DEVNULL, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        # In the background of a shell the signal is ignored, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip


def test_what_is_piped_is_read_as_a_file_is(outrider: Outrider, home: Path) -> None:
    assert outrider("ask", "-", stdin="").code == 2
    assert outrider("ask", "what changed?", stdin=b"\n M a.py\n?? b.py\n\n").code == 0
    assert outrider("ask", "-", stdin="\ufeffdel f():\n    x = '\u00e4'\n".encode("utf-16-le")).code == 0
    told = outrider("ask", "-", stdin=b"\xef\xbb\xbfNot all of this line is UTF-8: \xe4\n")
    assert (told.code, "1 character is sent as \ufffd" in told.err) == (0, True), told.err
    asked = [thread[0].text for thread in reversed(threads(home))]
    assert asked == [
        "what changed?\n\n M a.py\n?? b.py", "del f():\n    x = '\u00e4'", "Not all of this line is UTF-8: \ufffd"
    ]  # fmt: skip
    pdf = b"%PDF-1.3\n%\x93\x8c\x8b\x9e made by a program that writes mostly text\n1 0 obj\n<< >>\nendobj\n"
    for binary in (b"\x89PNG\r\n\x1a\n\x00\x00", bytes(range(128, 256)), pdf, OLD_OFFICE):
        result = outrider("ask", "what is this?", stdin=binary)
        assert result.says(2, "Nothing was sent: what was piped in"), result.err
    assert len(threads(home)) == len(asked), "a question of thousands of question marks is nobody's"


def test_a_conversation_goes_on(outrider: Outrider, home: Path) -> None:
    def asked(*arguments: str) -> str:
        return str(outrider("ask", "--json", *arguments).json["conversation"])

    nothing = outrider("ask", "-c", "and then?")
    assert nothing.says(1, "no conversation to continue") and nothing.out == ""
    first, second = asked("list files"), asked("show disk usage")
    assert asked("-c", "of this folder") == second
    assert asked("--conversation", first, "hidden ones") == asked("--continue", "by size") == first
    assert [[one.text for one in thread if one.role == "user"] for thread in threads(home)] == [
        ["list files", "hidden ones", "by size"],
        ["show disk usage", "of this folder"],
    ]
    assert outrider("ask", "--conversation", "c0ffee", "a").says(1, "c0ffee")
    with Store.open(home / "data" / "outrider.db") as store:
        chat = store.conversations.create("in the chat").id
        assert asked("-c", "list files") == chat
        assert store.conversations.get(chat).choices.origin is None, "it stays where it was begun"


def test_nothing_of_an_unsaved_question_is_anywhere_on_the_disk_nor_does_it_wait(
    outrider: Outrider, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTRIDER_LOG", "debug")
    answered = outrider("ask", "--no-save", "--json", SECRET)
    assert answered.code == 0 and answered.json["conversation"] is None
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text(json.dumps({"prompt": f"{SECRET} again"}))
    assert outrider("ask", "--no-save", "--prompts", str(prompts)).code == 0
    monkeypatch.setenv("OUTRIDER_OFFLINE", "queue")
    failed = outrider("ask", "--no-save", SECRET, "--mode", "edge", "--remote", "http://127.0.0.1:9")
    assert failed.code == 3 and "waits" not in failed.err and "queue send" not in failed.err
    files = [path for path in home.rglob("*") if path.is_file()]
    assert files and not [path for path in files if SECRET.encode() in path.read_bytes()]
    assert not (home / "data" / "outrider.db").exists()


async def test_a_pipe_gets_each_line_as_it_is_written(environment: dict[str, str], home: Path) -> None:
    async with ChatServer([Script(LINES, hold=True)]).listening() as port:
        environment |= {"OUTRIDER_REMOTE": f"http://127.0.0.1:{port}", "OUTRIDER_MODE": "auto"}
        process = start(environment, "list files", "--max-tokens", "100")
        try:
            assert process.stdout is not None
            lines = [await asyncio.to_thread(process.stdout.readline) for _ in range(2)]
            assert lines == LINES[:2] and process.poll() is None  # The answer has not ended, and never will.
            async with asyncio.timeout(PATIENCE_SECONDS):
                while LINES[2] not in threads(home)[0][-1].text:
                    await asyncio.sleep(0.02)
            assert threads(home)[0][-1].stats["model"] == "talker", "whatever kills it"
            process.send_signal(signal.SIGINT)
            out, err = await asyncio.to_thread(process.communicate, None, PATIENCE_SECONDS)
            assert (process.returncode, out) == (130, "and a half\n") and "Traceback" not in err
        finally:
            process.kill()
            process.communicate()
    ((question, answer),) = threads(home)
    assert (question.text, answer.text, answer.status) == ("list files", "".join(LINES), "stopped")


@pytest.mark.usefixtures("server")
def test_a_script_hears_nothing_of_the_connection(outrider: Outrider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_MODE", "auto")
    assert outrider("ask", "list files") == (0, "It says hi.\n", "")


async def test_a_reader_that_leaves_ends_it_quietly_and_loses_nothing(environment: dict[str, str], home: Path) -> None:
    pieces = [f"line {number}\n" for number in range(10_000)]  # More than a pipe holds.
    async with ChatServer([Script(pieces)]).listening() as port:
        environment |= {"OUTRIDER_REMOTE": f"http://127.0.0.1:{port}", "OUTRIDER_MODE": "auto"}
        process = start(environment, "count", "--max-tokens", "100000")
        try:
            assert process.stdout is not None and process.stderr is not None
            assert await asyncio.to_thread(process.stdout.readline) == "line 0\n"
            process.stdout.close()
            talk = await asyncio.to_thread(process.stderr.read)
            code = await asyncio.to_thread(process.wait, PATIENCE_SECONDS)
        finally:
            process.kill()
            process.wait()
            process.stderr.close()
    assert code == 1 and "Traceback" not in talk and "Broken pipe" not in talk
    ((_, answer),) = threads(home)
    assert answer.status == "stopped" and answer.text.startswith("line 0\nline 1\n")


def test_the_mode_is_told_once_for_all_prompts_and_json_escapes_what_a_terminal_would_obey(outrider: Outrider) -> None:
    prompt = "list \x9b2J files \u202e backwards \x7f"
    prompts = {"id": "one", "prompt": prompt}, {"turns": ["list files", "by size"]}
    ran = outrider("ask", "--prompts", "-", stdin="\n".join(json.dumps(one, ensure_ascii=False) for one in prompts))
    assert [row["prompt"] for row in ran.rows] == [prompt, "list files", "by size"] and ran.rows[0]["id"] == "one"
    assert ran.err.count("offline by choice") == 1 and not set("\x9b\u202e\x7f") & set(ran.out)


def test_a_pipe_without_an_end_is_not_read_to_it(environment: dict[str, str], home: Path) -> None:
    with Path("/dev/zero").open("rb") as endless:
        ran = subprocess.run(
            [*COMMAND, "-"], cwd=REPOSITORY, env=environment, stdin=endless, capture_output=True, text=True,
            check=False, timeout=PATIENCE_SECONDS,
        )  # fmt: skip
    assert (ran.returncode, ran.stdout) == (2, "") and "piped in" in ran.stderr and "head" in ran.stderr
    assert not (home / "data").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_output_without_room_ends_in_a_sentence(environment: dict[str, str], home: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        ran = subprocess.run(
            [*COMMAND, "list files"], cwd=REPOSITORY, env=environment, text=True, check=False,
            stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE, timeout=PATIENCE_SECONDS,
        )  # fmt: skip
    assert ran.returncode == 1 and "could not be written completely: No space left" in ran.stderr
    assert "Traceback" not in ran.stderr and "Exception ignored" not in ran.stderr
    ((question, answer),) = threads(home)
    assert question.text == "list files" and answer.text


def test_an_interrupt_while_it_is_still_loading_shows_no_traceback(environment: dict[str, str]) -> None:
    interrupting = (
        "import os, signal, sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'typer': os.kill(os.getpid(), signal.SIGINT)\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "sys.argv = ['outrider', 'history']\n"
        "from app.start import main; main()"
    )
    command = [sys.executable, "-c", interrupting]
    ran = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "")


def test_without_a_stream_no_file_that_got_its_number_is_written(environment: dict[str, str], home: Path) -> None:
    command = ["/bin/sh", "-c", f'exec "{sys.executable}" -m app.cli ask "list files" <&- >&- 2>&-']
    assert subprocess.run(command, cwd=REPOSITORY, env=environment).returncode == 0
    with closing(sqlite3.connect(home / "data" / "outrider.db")) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert [[message.status for message in thread] for thread in threads(home)] == [["done", "done"]]
