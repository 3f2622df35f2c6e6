"""Files of `outrider ask`: what a real server on loopback receives, what is stored, and what is refused before."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from app.cli.files import files_of
from storage import Attachment, Message, Store
from tests.app.attachments.conftest import PNG
from tests.support.chat_server import ChatServer, Script
from tests.support.commands import Outrider


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: ChatServer) -> Path:
    """The folder in which the command runs."""
    folder = tmp_path / "work"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "start.py").write_text("print('hi')\n")
    (folder / "src" / ".env").write_text("TOKEN=x\n")
    (folder / "a b.txt").write_text("spaced\n")
    (folder / ".env").write_text("TOKEN=x\n")
    (folder / "cat.png").write_bytes(PNG)
    monkeypatch.chdir(folder)
    return folder


def newest(home: Path) -> list[Message]:
    """The newest conversation."""
    with Store.open(home / "data" / "outrider.db") as store:
        return store.branches.thread(store.conversations.all()[0].id)


def test_the_server_gets_the_files_and_the_question(outrider: Outrider, server: ChatServer, home: Path) -> None:
    words = ("what", "-f", "a b.txt", "does @src/start.py for me@host, @gone.py?")  # Options may stand between words.
    result = outrider("ask", *words, stdin=b"@src/start.py is piped\n")
    assert (result.code, result.out) == (0, "It says hi.\n"), result.err
    question = "what does @src/start.py for me@host, @gone.py?\n\n@src/start.py is piped"
    files = "File: a b.txt\n```txt\nspaced\n```\n\nFile: src/start.py\n```py\nprint('hi')\n```\n\n"
    (asked,) = server.asked
    assert asked["messages"] == [{"role": "user", "content": files + question}]
    assert "with the question: a b.txt · 7 bytes; src/start.py · 12 bytes" in result.err
    assert "gone.py does not exist, so it is not sent" in result.err
    spaced = Attachment("a b.txt", "text/plain", b"spaced\n")
    start = Attachment("src/start.py", "text/plain", b"print('hi')\n")
    assert (newest(home)[0].text, newest(home)[0].attachments) == (question, (spaced, start))
    assert outrider("ask", "--queue", "what is @src/start.py").code == 0
    with Store.open(home / "data" / "outrider.db") as store:
        assert [one.attachments for one in store.queue.all()] == [(start,)], "a queued question keeps its files"


def test_images_go_up_as_data_urls_and_stay_there(outrider: Outrider, server: ChatServer, folder: Path) -> None:
    assert outrider("ask", "what is on @cat.png").code == 0
    (folder / "cat.png").unlink()  # What was sent once is never read from the disk again.
    assert outrider("ask", "-c", "and its colour?").code == 0
    text = {"type": "text", "text": "Image: cat.png\n\nwhat is on @cat.png"}
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{base64.b64encode(PNG).decode()}"}}
    first, (question, answer, then) = server.asked[0]["messages"], server.asked[1]["messages"]
    assert first == [question] == [{"role": "user", "content": [text, image]}]
    assert (answer["content"], then["content"]) == ("It says hi.", "and its colour?")


def test_nothing_is_sent_if_a_named_file_cannot_go_along(outrider: Outrider, server: ChatServer, folder: Path) -> None:
    (folder / "a.bin").write_bytes(b"\0\1")
    result = outrider("ask", "what is this", "--file", "a.bin", "--file", "gone\x1b[2J.txt")
    assert result.code == 2 and server.asked == []
    assert "Nothing was sent: a.bin is not text" in result.err and "\x1b" not in result.err
    assert outrider("ask", "--prompts", "x", "--file", "a b.txt").code == 2


def test_a_server_that_refuses_an_image_is_explained(outrider: Outrider, server: ChatServer, home: Path) -> None:
    server.refuses = "this model does not support image input"
    result = outrider("ask", "what is on @cat.png")
    assert result.says(3, "does not support image input")
    assert "If talker reads no images, choose a model that does" in result.err
    assert newest(home)[0].text == "what is on @cat.png"


def test_thoughts_are_kept_apart_and_never_sent_back(outrider: Outrider, server: ChatServer, home: Path) -> None:
    server.scripts = [Script(["<think>let me ", "see\x1b[2J</think>", "It says hi."]), Script(["Yes."])]
    assert outrider("ask", "--json", "what is this?").json["reasoning"] == "let me see"
    assert outrider("ask", "-c", "sure?").code == 0 and "let me" not in json.dumps(server.asked[1])
    answer = newest(home)[1]
    assert (answer.text, answer.reasoning) == ("It says hi.", "let me see")
    assert isinstance(answer.stats["reasoning_seconds"], float)


def test_a_model_that_wants_a_tool_is_explained(outrider: Outrider, server: ChatServer) -> None:
    server.scripts = [Script([], reason="tool_calls"), Script(["Let me look."], reason="tool_calls")]
    assert outrider("ask", "what is the weather?").says(3, "called a tool and sent no text")
    assert outrider("ask", "what is the weather?").says(0, "the model called a tool, which Outrider does not support")


def test_secrets_leave_this_device_only_if_they_are_named_with_the_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert [one.name for one in files_of("see @.env", (), stays_here=True)] == [".env"]
    assert [one.name for one in files_of("see @src/", (), stays_here=False)] == ["src/start.py"]
    assert "left out of src/, because they may hold a secret: .env" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        files_of("see @.env", (), stays_here=False)
    assert ended.value.code == 2
    assert ".env may hold a secret, and the server is not on this device" in capsys.readouterr().err
    assert [one.name for one in files_of("see @.env", [".env"], stays_here=False)] == [".env"]
    assert "goes to a server that is not on this device" in capsys.readouterr().err
