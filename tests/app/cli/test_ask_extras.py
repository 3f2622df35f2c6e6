"""What goes with a question of `outrider ask`: files, templates and tools; and the code alone that comes back."""

from __future__ import annotations

import base64
import json
import os
import sys
from pathlib import Path

import pytest

from app.cli.files import files_of
from storage import Attachment, Message, Store
from tests.app.attachments.conftest import PNG
from tests.support.chat_server import ChatServer, Script
from tests.support.commands import Outrider
from tests.support.patience import PATIENCE_SECONDS
from tests.support.serving import REPOSITORY


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
    monkeypatch.setattr("app.tools.servers.START_SECONDS", PATIENCE_SECONDS)
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
    assert "If talker cannot read images, choose a model that can" in result.err
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
    assert outrider("ask", "what is the weather?").says(3, "called a tool, though none was offered, and sent no text")
    assert outrider("ask", "what is the weather?").says(0, "the model called a tool, though none was offered")


def test_an_incomplete_answer_that_is_not_stored_is_not_to_be_continued(outrider: Outrider, server: ChatServer) -> None:
    server.scripts = [Script(["Half"], cut=True, reason=""), Script(["Half"], reason="length")] * 2
    broken, cut = (outrider("ask", "why?") for _ in range(2))
    assert "is kept" in broken.err and "To continue" in broken.err and "To continue" in cut.err
    broken, cut = (outrider("ask", "--no-save", "--json", "why?") for _ in range(2))
    assert "ended early" in broken.err and "is incomplete" in cut.err and cut.json["go_on"] is None
    assert not any(words in broken.err + cut.err for words in ("is kept", "To continue"))


def test_secrets_leave_this_device_only_if_they_are_named_with_the_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert [one.name for one in files_of("see @.env", (), stays_here=True).attachments] == [".env"]
    assert [one.name for one in files_of("see @src/", (), stays_here=False).attachments] == ["src/start.py"]
    assert "left out of src/, because they may hold a secret: .env" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        files_of("see @.env", (), stays_here=False)
    assert ended.value.code == 2
    assert ".env may hold a secret, and the server is not on this device" in capsys.readouterr().err
    assert [one.name for one in files_of("see @.env", [".env"], stays_here=False).attachments] == [".env"]
    assert "is sent to a server that is not on this device" in capsys.readouterr().err


def test_a_queued_secret_counts_as_sent_although_the_mode_is_offline_now(
    outrider: Outrider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTRIDER_REMOTE", "https://example.org")
    monkeypatch.setenv("OUTRIDER_MODE", "offline")
    assert outrider("ask", "--queue", "explain @.env").says(2, ".env may hold a secret")
    assert outrider("queue").says(0, "nothing is queued")
    assert outrider("ask", "--queue", "explain @.env", "-f", ".env").says(0, "is sent to a server that is not on this")


# ---- templates -------------------------------------------------------------------------------------------------------


def test_a_template_is_filled_with_variables_and_what_is_piped(
    outrider: Outrider, server: ChatServer, home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("A file.")
    monkeypatch.chdir(tmp_path)
    folder = home / "config" / "templates"
    folder.mkdir(parents=True)
    (folder / "translate.md").write_text("Into $lang for $$5, see @a.txt:\n$input\n")
    (folder / "haiku.txt").write_text("Write a haiku.")
    (folder / "bad.md").write_text("It costs $5.")

    def sent(*words: str, stdin: bytes = b"") -> str:
        result = outrider("ask", *words, stdin=stdin)
        assert result.code == 0, result.err
        return str(server.asked[-1]["messages"][-1]["content"])

    filled = sent("-t", "translate", "-p", "lang=a=b $x", stdin=b"good $day")
    assert filled == "Into a=b $x for $5, see @a.txt:\ngood $day"
    assert sent("-t", "haiku") == "Write a haiku."
    assert sent("-t", "haiku", "about", "@a.txt").endswith("Write a haiku.\n\nabout @a.txt")
    assert "A file." in server.asked[-1]["messages"][-1]["content"]
    for words, said in (
        (("-t", "translate", "x"), "needs lang: add -p lang="),
        (("-t", "translate", "-p", "lang=French"), "needs a question"),
        (("-t", "haiku", "-p", "tone=sad"), "has no variable tone (it has none)"),
        (("-t", "haiku", "-p", "tone"), "-p tone has no text"),
        (("-t", "bad"), "Write $$ for a dollar sign"),
        (("-t", "../config"), "(known: bad, haiku, translate)"),
        (("-p", "tone=sad", "x"), "name it with --template"),
    ):
        assert outrider("ask", *words).says(2, said), words
    assert len(server.asked) == 3


# ---- tools: a real MCP server is called as far as --allow says, once -------------------------------------------------


CALL = {"name": "files__write_file", "arguments": '{"name": "note", "text": "hello"}'}
WANTS = Script(
    [{"tool_calls": [{"index": 0, "id": "call_0", "type": "function", "function": CALL}]}], reason="tool_calls"
)


def add_files(outrider: Outrider, tmp_path: Path) -> None:
    """Adds a real MCP server as `files`."""
    words = (sys.executable, "-m", "tests.support.mcp_server", str(tmp_path))
    path = f"PYTHONPATH={os.pathsep.join([str(REPOSITORY), *sys.path])}"
    assert outrider("mcp", "add", "files", "--env", path, "--", *words).code == 0


def test_only_what_is_allowed_is_called(outrider: Outrider, server: ChatServer, tmp_path: Path) -> None:
    server.scripts = [WANTS, Script(["Refused."]), WANTS, Script(["Written."])]
    add_files(outrider, tmp_path)
    refused = outrider("ask", "--tools", "files", "write", "a", "note")
    assert refused.out == "Refused.\n" and "To allow it: --allow write_file" in refused.err
    assert not (tmp_path / "note").exists()
    assert outrider("ask", "-c", "--allow", "write_file", "now").out == "Written.\n"
    assert (tmp_path / "note").read_text() == "hello"
    assert (tmp_path / "calls").read_text().splitlines() == ["write_file"]
    exported = outrider("export").out
    assert "Tool call, refused" in exported and '"text": "hello"' in exported
    (told,) = outrider("export", "--format", "json").json["conversations"]
    assert [call["state"] for one in told["messages"] for call in one.get("calls", ())] == ["refused", "done"]


def test_a_resource_is_read_and_kept_with_the_question(
    outrider: Outrider, server: ChatServer, home: Path, tmp_path: Path
) -> None:
    add_files(outrider, tmp_path)
    name = "files:memo://today"
    memo = Attachment(name, "text/plain", b"buy milk\n")
    assert outrider("ask", f"what is @{name}?").says(0, f"{name} was not read; to send it: --tools files")
    assert newest(home)[0].attachments == ()
    assert outrider("ask", "--tools", "files", f"what is @{name}?").says(0, f"with the question: {name} · 9 bytes")
    assert server.asked[-1]["messages"][-1]["content"] == f"File: {name}\n```\nbuy milk\n```\n\nwhat is @{name}?"
    assert newest(home)[0].attachments == (memo,)
    assert outrider("ask", "-c", f"and @{name}").code == 0  # The conversation has the server.
    assert [one.attachments for one in newest(home)] == [(memo,), (), (memo,), ()]
    assert outrider("ask", "--queue", "-c", f"later @{name}", "-f", "a b.txt").code == 0
    with Store.open(home / "data" / "outrider.db") as store:
        assert [[one.name for one in queued.attachments] for queued in store.queue.all()] == [["a b.txt", name]]
        before = len(store.conversations.all())

    asked = len(server.asked)
    assert outrider("mcp", "add", "ended", "--", "false").code == 0
    for chosen, named, code, said in (
        ("files", "files:memo://gone", 1, "Nothing was sent: files:memo://gone cannot be read: files refuses it"),
        ("ended", "ended:memo://today", 1, "Nothing was sent: ended:memo://today cannot be read: ended ended"),
        ("nobody", "nobody:memo://today", 2, "there is no MCP server 'nobody'; yours: files, ended"),
    ):
        for more in ((), ("--queue",)):
            assert outrider("ask", *more, "--tools", chosen, f"what is @{named}").says(code, said)
    assert outrider("ask", "--tools", "nobody", "hi").says(2, "there is no MCP server 'nobody'; yours: files, ended")
    with Store.open(home / "data" / "outrider.db") as store:
        assert (len(server.asked), len(store.conversations.all()), len(store.queue.all())) == (asked, before, 1)


def test_a_resource_with_a_secret_leaves_this_device_only_if_the_option_names_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = "files:file:///home/a/%2Eenv"
    with pytest.raises(SystemExit):
        files_of(f"see @{name}", (), stays_here=False, servers=["files"])
    assert f"{name} may hold a secret" in capsys.readouterr().err
    assert files_of(f"see @{name}", (), stays_here=True, servers=["files"]).resources == [name]
    assert files_of(f"see @{name}", [name], stays_here=False, servers=["files"]).resources == [name]


# ---- --extract: what reaches a script is whole code, or nothing ------------------------------------------------------


def test_only_the_code_is_printed_and_never_half_of_it(outrider: Outrider, server: ChatServer) -> None:
    answer = "First:\n\n1. do\n   ```sh\n   ls -l\n   ```\n\nThen:\n```py\nprint('```')\n```\nDone."
    server.scripts = [Script([answer]), Script([answer]), Script(["None."]), Script(["```sh\nrm -r /tmp/x", "/y\n"])]
    assert outrider("ask", "-x", "how?").out == "print('```')\n"
    assert outrider("ask", "--extract-all", "how?").out == "ls -l\n\nprint('```')\n"
    none, half = outrider("ask", "-x", "how?"), outrider("ask", "-x", "how?")
    assert (none.code, none.out) == (half.code, half.out) == (1, "")
    assert "the answer has no code block: None." in none.err and "is incomplete, so it is not printed" in half.err
    assert outrider("ask", "-x", "--json", "how?").says(2, "--extract prints code alone")
