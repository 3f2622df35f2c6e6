"""Anthropic's Messages API for tests, as its reference and migration guides describe it (November 2026).

It refuses what the API refuses: a missing key or version, a question without `max_tokens` or with more than the model
may write, blank messages, and a last message of the assistant or a temperature for models that take none.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from app.config import Folders
from app.remotes.registry import Remote, Remotes
from tests.remote.toy_verifier import http, listening, request_of

KEY = "sk-ant-test"
MODELS: dict[str, tuple[int, int]] = {"claude-haiku-5-5": (1_000_000, 128_000), "claude-haiku-4-5": (200_000, 64_000)}
"""Context and longest answer."""
OLD = "claude-haiku-4-5"
"""The one that continues a last message of the assistant."""


FIELDS = {
    "model", "max_tokens", "messages", "system", "stream", "temperature", "top_p", "tools", "tool_choice",
    "stop_sequences",
}  # fmt: skip
RESULTS = "`tool_use` ids were found without `tool_result` blocks immediately after"
NO_TOOLS = "Requests which include `tool_use` or `tool_result` blocks must define tools."


@dataclass(frozen=True)
class Reply:
    """One answer: texts, and calls of tools as (id, name, arguments). `cut`: hang up after the pieces. `hold`: send
    nothing more, and keep the line open. `error`: an error event after the pieces. `status`: refuse with this error."""

    pieces: Sequence[str | tuple[str, str, str]] = ()
    thinking: str = ""
    cut: bool = False
    hold: bool = False
    error: str = ""
    status: int = 0
    after: int | None = None
    reason: str = "end_turn"


@dataclass
class MessagesServer:
    """Answers the nth accepted question with the nth reply, then with the last one."""

    replies: Sequence[Reply]
    asked: list[dict[str, Any]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    said: asyncio.Event = field(default_factory=asyncio.Event)
    hung_up: asyncio.Event = field(default_factory=asyncio.Event)

    def listening(self) -> AbstractAsyncContextManager[int]:
        return listening(self._serve)

    async def _serve(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head, body = await request_of(reader)
        method, path = head.split(b" ")[:2]
        headers = dict(re.findall(r"^([\w-]+): (.*?)\r?$", head.decode().lower(), re.MULTILINE))
        path = path.partition(b"?")[0]
        if KEY not in (headers.get("x-api-key"), headers.get("authorization", "").removeprefix("bearer ")):
            writer.write(_error(401, "authentication_error", "invalid x-api-key"))
        elif "anthropic-version" not in headers:
            writer.write(_error(400, "invalid_request_error", "anthropic-version: header is required"))
        elif (method, path) == (b"GET", b"/v1/models"):
            listed = [_model(name, *sizes) for name, sizes in MODELS.items()]
            old = {**_model("claude-2.1", 200_000, 4096), "lifecycle": "retired"}
            ends = {"has_more": False, "first_id": listed[0]["id"], "last_id": old["id"]}
            writer.write(_json({"data": [*listed, old], **ends}))
        elif (method, path) != (b"POST", b"/v1/messages"):
            writer.write(_error(404, "not_found_error", "Not found"))
        elif (problem := _problem(request := json.loads(body))) is not None:
            self.refused.append(problem[1])
            writer.write(_error(404 if problem[0] == "not_found_error" else 400, *problem))
        else:
            self.asked.append(request)
            reply = self.replies[min(len(self.asked), len(self.replies)) - 1]
            try:
                await self._answer(request, reply, reader, writer)
            finally:
                self.hung_up.set()
        await writer.drain()

    async def _answer(
        self, request: dict[str, Any], reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if reply.status:
            kind = {429: "rate_limit_error", 529: "overloaded_error"}.get(reply.status, "api_error")
            after = "" if reply.after is None else f"retry-after: {reply.after}\r\n"
            writer.write(_error(reply.status, kind, "Overloaded", extra=after))
            return
        writer.write(http(b"", content_type="text/event-stream"))
        counts = {"input_tokens": 5, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 20}
        start = {
            "id": "msg_1", "type": "message", "role": "assistant", "model": request["model"], "content": [],
            "stop_reason": None, "stop_sequence": None, "usage": {**counts, "output_tokens": 1},
        }  # fmt: skip
        writer.write(_event("message_start", message=start) + _event("ping"))
        blocks: list[str] = []
        if reply.thinking:
            writer.write(_begin(blocks, type="thinking", thinking=""))
            writer.write(_delta(0, type="thinking_delta", thinking=reply.thinking))
            writer.write(_delta(0, type="signature_delta", signature="EqQB"))
        for piece in reply.pieces or [""]:
            if isinstance(piece, tuple):
                writer.write(_begin(blocks, type="tool_use", id=piece[0], name=piece[1], input={}))
                for part in ("", piece[2][:8], piece[2][8:]):
                    writer.write(_delta(len(blocks) - 1, type="input_json_delta", partial_json=part))
                continue
            if blocks[-1:] != ["text"]:
                writer.write(_begin(blocks, type="text", text=""))
            writer.write(_delta(len(blocks) - 1, type="text_delta", text=piece))
            await writer.drain()
            self.said.set()
        if reply.hold:
            await reader.read()
        elif reply.error:
            writer.write(_event("error", error={"type": reply.error, "message": "Overloaded"}))
        elif not reply.cut:
            writer.write(_event("content_block_stop", index=len(blocks) - 1))
            delta = {"stop_reason": reply.reason, "stop_sequence": None}
            writer.write(_event("message_delta", delta=delta, usage={"output_tokens": 12}))
            writer.write(_event("message_stop"))


def claude(port: int, home: Path, monkeypatch: pytest.MonkeyPatch, model: str | None = None) -> Remotes:
    """The remotes of a program with this home: such a server as `claude`, and its key in the environment."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    remotes, url = Remotes(Folders.locate({"OUTRIDER_HOME": str(home)})), f"http://127.0.0.1:{port}"
    remotes.put("claude", Remote(url=url, kind="anthropic", model=model, token_variable="ANTHROPIC_API_KEY"))
    return remotes


def _problem(request: dict[str, Any]) -> tuple[str, str] | None:
    """The type and the message of the error for a request, or None."""
    wrong, model, most = "invalid_request_error", request.get("model", ""), request.get("max_tokens")
    if model not in MODELS:
        return "not_found_error", f"model: {model}"
    limit = MODELS[model][1]
    if not isinstance(most, int):
        return wrong, "max_tokens: Field required"
    if most > limit:
        return wrong, (
            f"max_tokens: {most} > {limit}, which is the maximum allowed number of output tokens for {model}"
        )
    if unknown := set(request) - FIELDS:
        return wrong, f"{unknown.pop()}: Extra inputs are not permitted"
    if model != OLD and "temperature" in request:
        return wrong, "`temperature` is deprecated for this model."
    called: list[str] = []
    for at, message in enumerate(request["messages"]):
        blocks = message["content"]
        texts = [blocks] if isinstance(blocks, str) else [block.get("text", "x") for block in blocks]
        parts = [] if isinstance(blocks, str) else blocks
        if called != [block["tool_use_id"] for block in parts if block["type"] == "tool_result"]:
            return wrong, f"messages.{at}: {RESULTS}: {called}"
        called = [block["id"] for block in parts if block["type"] == "tool_use"]
        if any(block["type"].startswith("tool_") for block in parts) and not request.get("tools"):
            return wrong, NO_TOOLS
        if message["role"] not in ("user", "assistant") or not texts or not all(text.strip() for text in texts):
            return wrong, f"messages.{at}: text content blocks must contain non-whitespace text"
    last = request["messages"][-1]
    if last["role"] == "assistant" and model != OLD:
        return (
            wrong,
            "This model does not support assistant message prefill. The conversation must end with a user message.",
        )
    if last["role"] == "assistant" and last["content"] != last["content"].rstrip():
        return wrong, "messages: final assistant content cannot end with trailing whitespace"
    return None


def _model(name: str, context: int, most: int) -> dict[str, Any]:
    return {
        "type": "model", "id": name, "display_name": name.title(), "created_at": "2026-10-01T00:00:00Z",
        "lifecycle": "active", "max_input_tokens": context, "max_tokens": most,
        "capabilities": {"image_input": {"supported": True}},
    }  # fmt: skip


def _event(name: str, **fields: Any) -> bytes:
    return f"event: {name}\ndata: {json.dumps({'type': name, **fields})}\n\n".encode()


def _begin(blocks: list[str], **block: Any) -> bytes:
    """A new block of an answer, after the end of the last one."""
    ended = _event("content_block_stop", index=len(blocks) - 1) if blocks else b""
    blocks.append(block["type"])
    return ended + _event("content_block_start", index=len(blocks) - 1, content_block=block)


def _delta(index: int, **delta: Any) -> bytes:
    return _event("content_block_delta", index=index, delta=delta)


def _json(value: Any, status: str = "200 OK", extra: str = "") -> bytes:
    return http(json.dumps(value).encode(), status=status, content_type="application/json", extra=extra)


def _error(status: int, kind: str, message: str, extra: str = "") -> bytes:
    told = {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}
    return _json(told, f"{status} X", extra)
