"""Files of `outrider ask`: what a real server on loopback receives, what is stored, and what is refused before."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from app.cli.files import files_of
from storage import Attachment, Store
from tests.app.attachments.conftest import PNG
from tests.support.chat_server import ChatServer, Script
from tests.support.serving import REPOSITORY

PATIENCE_SECONDS = 120


class Result(NamedTuple):
    code: int
    out: str
    err: str


Asking = Callable[..., Awaitable[Result]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder in which the command runs."""
    folder = tmp_path / "work"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "start.py").write_text("print('hi')\n")
    (folder / "src" / ".env").write_text("TOKEN=x\n")
    (folder / "a b.txt").write_text("spaced\n")
    (folder / ".env").write_text("TOKEN=x\n")
    (folder / "cat.png").write_bytes(PNG)
    return folder


@pytest.fixture
async def server() -> AsyncIterator[tuple[ChatServer, int]]:
    server = ChatServer([Script(["It says ", "hi."])])
    async with server.listening() as port:
        yield server, port


@pytest.fixture
def asking(folder: Path, tmp_path: Path, tiny_pair: Path, server: tuple[ChatServer, int]) -> Asking:
    async def ask(*arguments: str, stdin: bytes = b"", **more: str) -> Result:
        environment = {
            **os.environ,
            "OUTRIDER_HOME": str(tmp_path / "home"),
            "OUTRIDER_DRAFTER": str(tiny_pair / "drafter"),
            "OUTRIDER_REMOTE": f"http://127.0.0.1:{server[1]}",
            "PYTHONPATH": str(REPOSITORY),
            **more,
        }
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "app.start", "ask", *arguments),
            cwd=folder,
            env=environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await asyncio.wait_for(process.communicate(stdin), PATIENCE_SECONDS)
        return Result(process.returncode or 0, out.decode(), err.decode())

    return ask


def stored(tmp_path: Path) -> list[tuple[str, tuple[Attachment, ...]]]:
    """The questions of the newest conversation, each with its files."""
    with Store.open(tmp_path / "home" / "data" / "outrider.db") as store:
        thread = store.branches.thread(store.conversations.all()[0].id)
        return [(one.text, one.attachments) for one in thread if one.role == "user"]


async def test_the_server_gets_the_files_and_the_question(
    asking: Asking, server: tuple[ChatServer, int], tmp_path: Path
) -> None:
    result = await asking("what", "does @src/start.py do?", "-f", "a b.txt", stdin=b"@src/start.py is piped\n")
    assert result.code == 0, result.err
    assert result.out == "It says hi.\n"
    question = "what does @src/start.py do?\n\n@src/start.py is piped"
    files = "File: a b.txt\n```txt\nspaced\n```\n\nFile: src/start.py\n```py\nprint('hi')\n```\n\n"
    (asked,) = server[0].asked
    assert asked["messages"] == [{"role": "user", "content": files + question}]
    assert "with the question: a b.txt · 7 bytes; src/start.py · 12 bytes" in result.err
    assert stored(tmp_path) == [
        (
            question,
            (
                Attachment("a b.txt", "text/plain", b"spaced\n"),
                Attachment("src/start.py", "text/plain", b"print('hi')\n"),
            ),
        )
    ]


async def test_images_go_up_as_data_urls_and_stay_in_the_conversation(
    asking: Asking, server: tuple[ChatServer, int], folder: Path
) -> None:
    assert (await asking("what is on @cat.png")).code == 0
    (folder / "cat.png").unlink()  # What was sent once is never read from the disk again.
    assert (await asking("-c", "and its colour?")).code == 0
    url = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
    first = {
        "role": "user",
        "content": [
            {"type": "text", "text": "Image: cat.png\n\nwhat is on @cat.png"},
            {"type": "image_url", "image_url": {"url": url}},
        ],
    }
    assert [one["messages"] for one in server[0].asked] == [
        [first],
        [first, {"role": "assistant", "content": "It says hi."}, {"role": "user", "content": "and its colour?"}],
    ]


async def test_whoever_reads_text_only_says_so_and_loses_nothing(asking: Asking, tmp_path: Path) -> None:
    result = await asking("what is on @cat.png", OUTRIDER_MODE="offline", OUTRIDER_OFFLINE="drafter")
    assert result.code == 3 and result.out == ""
    assert "reads text and no images: cat.png" in result.err and "kept" in result.err
    assert stored(tmp_path) == [("what is on @cat.png", (Attachment("cat.png", "image/png", PNG),))]


async def test_a_word_that_looks_like_a_path_is_told_and_sent_as_text(
    asking: Asking, server: tuple[ChatServer, int]
) -> None:
    result = await asking("fix @src/gone.py for user@host")
    assert result.code == 0
    assert "src/gone.py is not there, so nothing is sent for it" in result.err
    assert server[0].asked[0]["messages"] == [{"role": "user", "content": "fix @src/gone.py for user@host"}]


async def test_nothing_is_sent_if_a_named_file_cannot_go_along(
    asking: Asking, server: tuple[ChatServer, int], folder: Path
) -> None:
    (folder / "a.bin").write_bytes(b"\0\1")
    result = await asking("what is this", "--file", "a.bin", "--file", "gone\x1b[2J.txt")
    assert result.code == 2 and server[0].asked == []
    assert "Nothing was sent: a.bin is no text" in result.err and "\x1b" not in result.err
    assert (await asking("--prompts", "x", "--file", "a b.txt")).code == 2


async def test_a_queued_question_keeps_its_files(asking: Asking, tmp_path: Path, folder: Path) -> None:
    assert (await asking("--queue", "what is @src/start.py")).code == 0
    with Store.open(tmp_path / "home" / "data" / "outrider.db") as store:
        (queued,) = store.queue.all()
        assert queued.attachments == (Attachment("src/start.py", "text/plain", b"print('hi')\n"),)


async def test_a_server_that_refuses_an_image_is_explained(
    asking: Asking, server: tuple[ChatServer, int], tmp_path: Path
) -> None:
    server[0].refuses = "this model does not support image input"
    result = await asking("what is on @cat.png")
    assert result.code == 3
    assert "does not support image input" in result.err
    assert "If talker reads no images, choose a model that does" in result.err
    assert [text for text, _ in stored(tmp_path)] == ["what is on @cat.png"]


async def test_thoughts_are_kept_apart_and_never_sent_back(
    asking: Asking, server: tuple[ChatServer, int], tmp_path: Path
) -> None:
    server[0].scripts = [Script(["<think>let me ", "see\x1b[2J</think>", "It says hi."]), Script(["Yes."])]
    result = await asking("--json", "what is this?")
    assert json.loads(result.out)["reasoning"] == "let me see"
    assert (await asking("-c", "sure?")).code == 0
    assert "let me" not in json.dumps(server[0].asked[1])
    with Store.open(tmp_path / "home" / "data" / "outrider.db") as store:
        answer = store.branches.thread(store.conversations.all()[0].id)[1]
        assert (answer.text, answer.reasoning) == ("It says hi.", "let me see")
        assert isinstance(answer.stats["reasoning_seconds"], float)


async def test_a_model_that_wants_a_tool_is_explained(asking: Asking, server: tuple[ChatServer, int]) -> None:
    server[0].scripts = [Script([], reason="tool_calls"), Script(["Let me look."], reason="tool_calls")]
    result = await asking("what is the weather?")
    assert result.code == 3 and "asked for a tool and said nothing else" in result.err
    result = await asking("what is the weather?")
    assert result.code == 0 and "the model asked for a tool, and Outrider has none" in result.err


def test_secrets_leave_this_device_only_if_they_are_named_with_the_option(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    assert [one.name for one in files_of("see @.env", (), stays_here=True)] == [".env"]
    assert [one.name for one in files_of("see @src/", (), stays_here=False)] == ["src/start.py"]
    assert "left out of src/, because they may hold a secret: .env" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        files_of("see @.env", (), stays_here=False)
    assert ended.value.code == 2
    assert ".env may hold a secret, and the server is not on this device" in capsys.readouterr().err
    assert [one.name for one in files_of("see @.env", [".env"], stays_here=False)] == [".env"]
    assert "goes to a server that is not on this device" in capsys.readouterr().err
