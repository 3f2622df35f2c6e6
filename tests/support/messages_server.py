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
from typing import Any

from tests.remote.toy_verifier import http, listening, request_of

KEY = "sk-ant-test"
MODELS: dict[str, tuple[int, int]] = {"claude-haiku-5-5": (1_000_000, 128_000), "claude-haiku-4-5": (200_000, 64_000)}
"""Context and longest answer."""
OLD = "claude-haiku-4-5"
"""The one that continues a last message of the assistant."""


@dataclass(frozen=True)
class Reply:
    """One answer. `cut`: hang up after the pieces. `hold`: send nothing more, and keep the line open. `error`: an
    error event after the pieces. `status`: refuse instead, with this error."""

    pieces: Sequence[str] = ()
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
        at = 0
        if reply.thinking:
            writer.write(_event("content_block_start", index=0, content_block={"type": "thinking", "thinking": ""}))
            writer.write(_delta(0, type="thinking_delta", thinking=reply.thinking))
            writer.write(_delta(0, type="signature_delta", signature="EqQB"))
            writer.write(_event("content_block_stop", index=0))
            at = 1
        writer.write(_event("content_block_start", index=at, content_block={"type": "text", "text": ""}))
        for piece in reply.pieces:
            writer.write(_delta(at, type="text_delta", text=piece))
            await writer.drain()
            self.said.set()
        if reply.hold:
            await reader.read()
        elif reply.error:
            writer.write(_event("error", error={"type": reply.error, "message": "Overloaded"}))
        elif not reply.cut:
            writer.write(_event("content_block_stop", index=at))
            delta = {"stop_reason": reply.reason, "stop_sequence": None}
            writer.write(_event("message_delta", delta=delta, usage={"output_tokens": 12}))
            writer.write(_event("message_stop"))


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
    if unknown := set(request) - {"model", "max_tokens", "messages", "system", "stream", "temperature", "top_p"}:
        return wrong, f"{unknown.pop()}: Extra inputs are not permitted"
    if model != OLD and "temperature" in request:
        return wrong, "`temperature` is deprecated for this model."
    for at, message in enumerate(request["messages"]):
        blocks = message["content"]
        texts = [blocks] if isinstance(blocks, str) else [block.get("text", "x") for block in blocks]
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


def _delta(index: int, **delta: Any) -> bytes:
    return _event("content_block_delta", index=index, delta=delta)


def _json(value: Any, status: str = "200 OK", extra: str = "") -> bytes:
    return http(json.dumps(value).encode(), status=status, content_type="application/json", extra=extra)


def _error(status: int, kind: str, message: str, extra: str = "") -> bytes:
    told = {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}
    return _json(told, f"{status} X", extra)
