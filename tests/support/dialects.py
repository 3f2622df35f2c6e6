"""What hosted services and local servers send, written down from their documentation, and a server that plays it back.

Each file of `tests/remote/openai/dialects` is one service: the pages that its facts are from, and exchanges. An
exchange is a `stream` of events, an error (`status`, `headers`, `json`), or an error about one field that it `refuses`,
after which the same question without that field is answered. `expected` says what must become of it.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.remote.toy_verifier import http, listening, request_of

FOLDER = Path(__file__).parents[1] / "remote" / "openai" / "dialects"
EVENTS = "text/event-stream"
JSON = "application/json"
MODEL = "talker"


@dataclass(frozen=True)
class Exchange:
    """One question to a service, and what it sends."""

    service: str
    name: str
    expected: dict[str, Any]
    stream: tuple[Any, ...] | None = None
    refuses: str | None = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = None

    def __str__(self) -> str:
        return f"{self.service}: {self.name}"


def exchanges() -> list[Exchange]:
    found = []
    for path in sorted(FOLDER.glob("*.json")):
        for one in json.loads(path.read_text())["exchanges"]:
            stream = tuple(one["stream"]) if "stream" in one else None
            rest = {name: one[name] for name in ("refuses", "status", "headers") if name in one}
            found.append(Exchange(path.stem, one["name"], one["expected"], stream, body=one.get("json"), **rest))
    return found


def exchange(service: str, name: str) -> Exchange:
    return next(one for one in exchanges() if (one.service, one.name) == (service, name))


PLAIN = (
    {"choices": [{"index": 0, "delta": {"content": "ls -l"}, "finish_reason": None}]},
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    "[DONE]",
)
"""The answer of a service that has nothing to refuse any more."""


@dataclass
class Playback:
    """A service on loopback that plays one exchange again and again, and keeps what it was asked."""

    exchange: Exchange
    owner: str = "somebody"
    model: str = MODEL
    asked: list[dict[str, Any]] = field(default_factory=list)

    def listening(self) -> AbstractAsyncContextManager[int]:
        return listening(self._serve)

    async def _serve(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head, body = await request_of(reader)
        if b"/models" in head.split(b" ")[1]:
            listed = {"object": "list", "data": [{"id": self.model, "object": "model", "owned_by": self.owner}]}
            writer.write(http(json.dumps(listed).encode(), content_type=JSON))
        elif not head.split(b" ")[1].endswith(b"/chat/completions"):
            writer.write(http(b'{"error":{"message":"Unknown path."}}', status="404 Not Found", content_type=JSON))
        else:
            self.asked.append(json.loads(body))
            writer.write(self._answer(self.asked[-1]))
        await writer.drain()

    def _answer(self, request: dict[str, Any]) -> bytes:
        told = self.exchange
        if told.refuses is not None and told.refuses not in request:
            return _stream(PLAIN)
        if told.stream is not None:
            return _stream(told.stream)
        extra = "".join(f"{name}: {value}\r\n" for name, value in told.headers.items())
        return http(json.dumps(told.body).encode(), status=f"{told.status} X", content_type=JSON, extra=extra)


def _stream(events: tuple[Any, ...]) -> bytes:
    """Events in order: objects and `[DONE]` as data, other texts as lines of their own, such as comments."""
    body = b""
    for event in events:
        if isinstance(event, str) and event != "[DONE]":
            body += event.encode() + (b"\n" if event.startswith("event:") else b"\n\n")
        else:
            data = event if isinstance(event, str) else json.dumps(event)
            body += b"data: " + data.encode() + b"\n\n"
    return http(body, content_type=EVENTS)
