"""No foreign escape sequence reaches a real terminal, on any way through the program."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from storage import Store
from tests.remote.toy_verifier import http, listening, request_of
from tests.support.chat_server import JSON, event
from tests.support.serving import REPOSITORY
from tests.support.terminal import Terminal

SIZE = 40, 140
"""A terminal wide enough for the list of conversations."""
PAYLOADS = {
    "clipboard": "\x1b]52;c;UFdORUQ=\x07",
    "title": "\x1b]0;PWNED\x1b\\",
    "clear": "\x1b[2J",
    "report": "\x1b[6n",
    "mouse": "\x1b[?1002h",
    "sixel": "\x1bPq#0;2;0;0;0#0~~@@vv\x1b\\",
    "apc": "\x1b_Gf=24,s=1,v=1;UFdO\x1b\\",
    "reset": "\x1bc",
    "c1_csi": "\x9b2J",
    "c1_osc": "\x9d52;c;UFdORUQ=\x9c",
    "backspace": "\x08\x08",
    "return": "\x0d",
    "override": "\u202egnihtyna\u202c",
    "zero_width": "a\u200bb\u2060c\ufeffd\u00ade",
    "tag": "a\U000e0050\U000e0057\U000e007fb",
    "torn": "\x1b]52;c;VE9STg==",
}
"""One of each kind; `tests/app/test_sanitise.py` has all. `torn` may take what follows it, so it comes last."""
END = "the-end-of-it"


def hostile(name: str) -> str:
    """Text with all payloads between plain words, and an end to wait for before the torn one."""
    parts = [f"{name} {word} {payload}." for word, payload in PAYLOADS.items()]
    return " ".join([*parts[:-1], f"\n\n{name}-{END}\n\n", parts[-1]])


def hostile_line(name: str) -> str:
    """A line with all payloads for a title or an error, of which only the beginning is shown."""
    return f"{name}-{END} " + "".join(payload for key, payload in PAYLOADS.items() if key != "torn")


OWN = re.compile(
    rb"\x1b\[[0-9;:]*[mH]"  # colours, the cursor
    rb"|\x1b\[\?(?:7|25|1000|1003|1004|1006|1015|1049|2004|2026|2048)[hl]"  # modes that Textual sets
    rb"|\x1b\[\?(?:2026|2048)\$p"  # and asks for
    rb"|\x1b\[(?:>[0-9]+|<|\?)u"  # the keyboard's protocol
    rb"|\x1b\]22;[a-z]*\x07"  # the shape of the pointer
    rb"|\x1b\[[23]?J|\x1b\[K"
)
"""Textual's own sequences, none of which carries text. No payload may be one of them."""
CONTROLS = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe01\ufeff\U000e0000-\U000e0fff]"
)


def arrived(raw: bytes) -> list[str]:
    """Payloads, by name, that are in these bytes of a terminal; then any other control character."""
    found = [name for name, payload in PAYLOADS.items() if len(payload) > 1 and payload.encode() in raw]
    # Without our own sequences the rest is text, whose only control characters are line ends and tabs.
    text = OWN.sub(b"", raw).decode("utf-8", "replace")
    return found + [repr(text[max(0, at.start() - 20) : at.end() + 20]) for at in CONTROLS.finditer(text)]


@dataclass
class HostileServer:
    """Speaks OpenAI's dialect. Its model's name, its answers and its refusals are all hostile.

    Every other question is refused.
    """

    piece: int
    """Characters that are sent at once, so that sequences are cut anywhere."""
    asked: int = 0

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        async with listening(self._serve) as port:
            yield f"http://127.0.0.1:{port}"

    async def _serve(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await request_of(reader))[0].split(b" ")[1]
        self.asked += path == b"/v1/chat/completions"
        if path == b"/v1/models":
            status, told = "200 OK", {"data": [{"id": hostile_line("model"), "owned_by": hostile_line("owner")}]}
        elif path != b"/v1/chat/completions":
            status, told = "404 Not Found", {"error": {"message": hostile_line("lost"), "code": None}}
        elif self.asked % 2 == 0:
            status, told = "400 Bad Request", {"error": {"message": hostile_line("refused"), "code": "nope"}}
        else:
            writer.write(http(b"", content_type="text/event-stream"))
            text = hostile("answer")
            for at in range(0, len(text), self.piece):
                writer.write(event({"content": text[at : at + self.piece]}))
                await writer.drain()
            writer.write(event({}, "stop") + b"data: [DONE]\n\n")
            await writer.drain()
            return
        writer.write(http(json.dumps(told).encode(), status=status, content_type=JSON))
        await writer.drain()


@pytest.fixture
def conversation(tmp_path: Path) -> str:
    """A home with hostile text in each stored field, in a queued prompt and in the log."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "outrider.log").write_text(f"{hostile('log')}\n", encoding="utf-8")
    with Store.open(tmp_path / "data" / "outrider.db") as store:
        kept = store.conversations.create(hostile_line("title")).id
        question = store.messages.add(kept, "user", hostile("question"), parent_id=None, status="done").id
        answer = store.messages.add(kept, "assistant", "", parent_id=question, status="pending").id
        store.messages.finish(answer, (1, 2), (True, False), hostile("stored"), "done", {})
        store.queue.add(kept, hostile_line("queued"))
        return kept


def outrider(environment: dict[str, str], *arguments: str) -> Terminal:
    command = [sys.executable, "-m", "app.start", *arguments]
    environment |= {"OUTRIDER_MAX_TOKENS": "20000"}
    return Terminal(command, environment=environment, folder=REPOSITORY, size=SIZE)


def test_the_check_sees_what_a_careless_program_lets_through(environment: dict[str, str], tmp_path: Path) -> None:
    payloads = {name: payload for name, payload in PAYLOADS.items() if name != "return"}  # A terminal ends lines so.
    lines = [f"before{payload}after\n" for payload in payloads.values()]
    (tmp_path / "payloads").write_text("".join(lines), encoding="utf-8", newline="")
    with Terminal(["cat", str(tmp_path / "payloads")], environment=environment) as terminal:
        terminal.end()
    for name, line in zip(payloads, terminal.raw.splitlines(), strict=True):
        assert arrived(line), name
    assert not arrived(b"\x1b[?1049h\x1b[1;2H\x1b[38;2;1;2;3mplain\r\n\ttext \xc3\xa4\xe2\x94\x80\x1b]22;default\x07")


async def test_ask(environment: dict[str, str]) -> None:
    server = HostileServer(1)
    async with server.listening() as url:
        for says in ("answer", "refused"):
            with outrider(environment, "ask", "hello", "--remote", url, "--mode", "hosted") as terminal:
                code = await asyncio.to_thread(terminal.end)
            assert not arrived(terminal.raw), says
            assert f"{says}-{END}" in terminal.text and code == (0 if says == "answer" else 3)
            assert says == "refused" or all(word in terminal.text for word in PAYLOADS if word != "torn")


@pytest.mark.parametrize("command", ["history search stored", "queue", "log", "export --format html", "doctor"])
def test_commands_that_show_what_is_stored(environment: dict[str, str], conversation: str, command: str) -> None:
    with outrider(environment, *command.split()) as terminal:
        terminal.end()
    assert not arrived(terminal.raw)
    assert terminal.text.strip()


async def test_the_screen(environment: dict[str, str], conversation: str) -> None:
    server = HostileServer(5)
    async with server.listening() as url:
        environment |= {"OUTRIDER_REMOTE": url, "OUTRIDER_MODE": "auto"}
        with outrider(environment, "chat", "--conversation", conversation) as terminal:
            for shown in (f"stored-{END}", f"answer-{END}"):  # The queued prompt is sent by itself.
                await asyncio.to_thread(terminal.wait_for, shown)
            terminal.type("and this?")
            while server.asked < 2:  # While the first answer runs, the question stays in the prompt.
                terminal.type("\r")
                await asyncio.to_thread(terminal.read, 0.2)
            await asyncio.to_thread(terminal.wait_for, f"refused-{END}")
            terminal.type("\x11")
            assert await asyncio.to_thread(terminal.end) == 0
    assert not arrived(terminal.raw)
    assert f"title-{END}" in terminal.text


def test_what_is_imported(environment: dict[str, str], tmp_path: Path) -> None:
    """Import a ChatGPT export with hostile text everywhere, also in its file name, and show it on the screen."""
    parts = {"q": (None, "user", "imported"), "a": ("q", "assistant", "told")}
    mapping = {}
    for name, (parent, role, word) in parts.items():
        content = {"content_type": "text", "parts": [hostile(word)]}
        message = {"author": {"role": role}, "content": content, "metadata": {"model_slug": hostile_line("slug")}}
        mapping[name] = {"parent": parent, "message": message}
    whole = {"title": hostile_line("heading"), "id": hostile_line("id"), "mapping": mapping, "current_node": "a"}
    odd = {"title": hostile_line("odd"), "id": "2", "mapping": {}}
    file = tmp_path / "conversations\x1b]0;PWNED\x07.json"
    file.write_text(json.dumps([whole, odd], ensure_ascii=False), encoding="utf-8")
    with outrider(environment, "import", str(file)) as terminal:
        terminal.end()
    assert not arrived(terminal.raw)
    with outrider(environment, "chat", "-c") as terminal:
        terminal.wait_for(f"told-{END}")
        terminal.type("\x11")
        assert terminal.end() == 0
    assert not arrived(terminal.raw)
