"""An OpenAI-compatible server for tests: it sends scripted answers in pieces, and hangs up where a script says so."""

from __future__ import annotations

import asyncio
import json
import queue
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from app.reply.model_title import REQUEST
from tests.remote.toy_verifier import http, listening
from tests.support.patience import PATIENCE_SECONDS

JSON = "application/json"


@dataclass(frozen=True)
class Script:
    """One answer: texts, and deltas of other kinds, such as tool calls. `cut`: hang up after these pieces. `hold`: keep
    the line open and send nothing more. `pause`: seconds after each piece."""

    pieces: Iterable[str | dict[str, Any]]
    cut: bool = False
    hold: bool = False
    pause: float = 0
    reason: str = "stop"
    usage: tuple[int, int] | None = None
    """Tokens that it counts: of the prompt and of the answer."""


@dataclass
class ChatServer:
    """Answers the nth question with `scripts[n]`, then with the last one. While `away`, it hangs up at once."""

    scripts: Sequence[Script]
    owner: str = "somebody"
    away: bool = False
    refuses: str = ""
    """An error message with which every question is refused as a bad request."""
    reads_most: int = 0
    """Characters of the longest prompt that it takes, if not 0."""
    price: tuple[str, str] | None = None
    """Dollars for a token, as its list of models says it."""
    takes_tools: bool = True
    """Whether it accepts requests that offer tools."""
    strict: bool = False
    """Whether it refuses models that it does not list."""
    leaves: bool = False
    """Whether it is `away` after an answer that it cut."""
    asked: list[dict[str, Any]] = field(default_factory=list)
    reads: bool = False
    """Whether it reads along: questions for a single token are noted in `read`, and answered at once."""
    read: list[dict[str, Any]] = field(default_factory=list)
    title: str | None = ""
    """What it says when it is asked for a title; None: nothing, and it keeps the line open."""
    entitled: list[dict[str, Any]] = field(default_factory=list)
    """The questions for a title, which are not in `asked`."""
    was_read: asyncio.Event = field(default_factory=asyncio.Event)
    said: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a piece was sent."""
    hung_up: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a client leaves an answer that was held, or that has pauses."""

    def listening(self) -> AbstractAsyncContextManager[int]:
        return listening(self._serve)

    async def _serve(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if self.away:
            return
        path = head.split(b" ")[1]
        if path == b"/v1/models":
            price = self.price and {"pricing": dict(zip(("prompt", "completion"), self.price))}
            talker = {"id": "talker", "owned_by": self.owner, **(price or {})}
            listed = {"object": "list", "data": [talker, {"id": "other"}]}
            writer.write(http(json.dumps(listed).encode(), content_type=JSON))
        elif path == b"/v1/chat/completions":
            size = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            asked = json.loads(await reader.readexactly(size))
            if asked.get("messages", [{}])[-1].get("content") == REQUEST:
                self.entitled.append(asked)
                writer.write(http(b"", content_type="text/event-stream"))
                if self.title is None:
                    await reader.read()
                    self.hung_up.set()
                else:
                    writer.write(event({"content": self.title}) + event({}, "stop") + b"data: [DONE]\n\n")
            elif self.reads and asked.get("max_tokens") == 1:
                self.read.append(asked)
                self.was_read.set()
                writer.write(http(b"", content_type="text/event-stream") + event({}, "length") + b"data: [DONE]\n\n")
            else:
                self.asked.append(asked)
                await self._answer(asked, reader, writer)
        else:
            body = b'{"error":{"message":"Unknown path.","code":null}}'
            writer.write(http(body, status="404 Not Found", content_type=JSON))
        await writer.drain()

    async def _answer(self, asked: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.strict and asked["model"] not in ("talker", "other"):
            told = {"error": {"message": f"No model {asked['model']}.", "code": "model_not_found"}}
            writer.write(http(json.dumps(told).encode(), status="404 Not Found", content_type=JSON))
        elif "tools" in asked and not self.takes_tools:
            told = {"error": {"message": "talker does not support tools", "type": "invalid_request_error"}}
            writer.write(http(json.dumps(told).encode(), status="400 Bad Request", content_type=JSON))
        elif 0 < self.reads_most < sum(len(message["content"]) for message in asked["messages"]):
            told = {"error": {"message": "maximum context length exceeded", "code": "context_length_exceeded"}}
            writer.write(http(json.dumps(told).encode(), status="400 Bad Request", content_type=JSON))
        elif self.refuses:
            told = {"error": {"message": self.refuses, "type": "invalid_request_error"}}
            writer.write(http(json.dumps(told).encode(), status="400 Bad Request", content_type=JSON))
        else:
            script = self.scripts[min(len(self.asked), len(self.scripts)) - 1]
            try:
                await self._say(script, reader, writer)
            finally:  # The client may leave before it has the first piece.
                if script.hold or script.pause:
                    self.hung_up.set()

    async def _say(self, script: Script, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(http(b"", content_type="text/event-stream"))
        for piece in script.pieces:
            writer.write(event({"content": piece} if isinstance(piece, str) else piece))
            await writer.drain()
            self.said.set()
            await asyncio.sleep(script.pause)
        if script.hold:
            await reader.read()
        elif script.cut:
            self.away = self.leaves
        else:
            writer.write(event({}, script.reason))
            if script.usage is not None:
                counts = dict(zip(("prompt_tokens", "completion_tokens"), script.usage))
                writer.write(b"data: " + json.dumps({"choices": [], "usage": counts}).encode() + b"\n\n")
            writer.write(b"data: [DONE]\n\n")


def event(delta: dict[str, Any], reason: str | None = None) -> bytes:
    return b"data: " + json.dumps({"choices": [{"delta": delta, "finish_reason": reason}]}).encode() + b"\n\n"


@contextmanager
def in_thread(server: AbstractAsyncContextManager[int]) -> Iterator[int]:
    """Run a server in a thread, for a test that has no event loop or blocks it; yields its port."""
    running: queue.Queue[tuple[int, asyncio.AbstractEventLoop, asyncio.Event]] = queue.Queue()

    async def serve() -> None:
        ended = asyncio.Event()
        async with server as port:
            running.put((port, asyncio.get_running_loop(), ended))
            await ended.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    port, loop, ended = running.get(timeout=PATIENCE_SECONDS)
    try:
        yield port
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()
