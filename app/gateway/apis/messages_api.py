"""`POST /v1/messages`: Anthropic's API, used by Claude Code and Anthropic's clients.

Tool calls are sent when the answer is complete, each as a whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from app.gateway.apis.chat_api import marks_of
from app.gateway.call import Call, joined_system, read_call, unreadable
from app.gateway.exchange import Exchange
from app.gateway.refusals import GatewayRefused
from app.gateway.sent_text import Piece
from remote.anthropic.messages import CHOICES
from remote.openai.lenient_json import parse
from remote.openai.request_fields import THOUGHT, UNSUPPORTED, FieldRefused, read_fields
from remote.openai.schema import ToolCall

Block = dict[str, Any]
SAME = ("model", "max_tokens", "temperature", "top_p", "top_k", "stream")
"""Fields with the same meaning in a request for chat."""
ENDS = {"length": "max_tokens", "content_filter": "refusal", "tool_calls": "tool_use"}
"""OpenAI's reason for an end -> Anthropic's."""
ERRORS = {
    401: "authentication_error", 403: "permission_error", 404: "not_found_error", 413: "request_too_large",
    429: "rate_limit_error", 503: "overloaded_error",
}  # fmt: skip


def read_messages(body: bytes) -> Call:
    """Read a request. Raises `GatewayRefused`."""
    return read_call(msgspec.json.encode(chat_fields(body)))


def chat_fields(body: bytes) -> dict[str, Any]:
    """A request in the terms of chat. Raises `GatewayRefused`."""
    try:
        given = read_fields(body)
        fields: dict[str, Any] = {name: given[name] for name in SAME if given.get(name) is not None}
        messages = [message for one in given.get("messages") or () for message in _messages(one)]
        system = _content(given.get("system"))
        fields["messages"] = joined_system([*([{"role": "system", "content": system}] if system else ()), *messages])
        if given.get("stop_sequences"):
            fields["stop"] = given["stop_sequences"]
        # A tool with its own type is run by Anthropic's servers, so the model here is not told of it.
        if tools := [_tool(tool) for tool in given.get("tools") or () if tool.get("type") in (None, "custom")]:
            fields["tools"] = tools
            fields |= _choice(given.get("tool_choice") or {"type": "auto"})
    except FieldRefused as error:
        raise GatewayRefused(str(error), error.param, code=error.reason) from None
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise unreadable(error) from None
    return fields


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    told = {"description": tool["description"]} if tool.get("description") else {}
    function = {"name": tool["name"], **told, "parameters": tool.get("input_schema") or {"type": "object"}}
    return {"type": "function", "function": function}


def _choice(given: Mapping[str, Any]) -> dict[str, Any]:
    kind = given.get("type")
    if kind == "tool":
        choice: Any = {"type": "function", "function": {"name": given["name"]}}
    elif (choice := CHOICES.get(str(kind))) is None:
        raise FieldRefused(f"tool_choice is {kind!r}; use auto, any, tool or none.", "tool_choice", UNSUPPORTED)
    return {"tool_choice": choice, **({"parallel_tool_calls": False} if given.get("disable_parallel_tool_use") else {})}


def _messages(message: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    """A message in the terms of chat, where each result of a tool is a separate message."""
    role, content = message.get("role"), message.get("content")
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    for block in blocks:
        if block.get("type") == "tool_result":
            said = _content(block.get("content")) or ""
            if block.get("is_error"):
                said = f"Error: {said}" if isinstance(said, str) else [{"type": "text", "text": "Error:"}, *said]
            yield {"role": "tool", "tool_call_id": block.get("tool_use_id"), "content": said}
    calls = [_called(block) for block in blocks if block.get("type") == "tool_use"]
    said = _content([block for block in blocks if block.get("type") not in ("tool_use", "tool_result")])
    if said or calls:
        yield {"role": role, "content": said or None, **({"tool_calls": calls} if calls else {})}


def _called(block: Block) -> dict[str, Any]:
    function = {"name": block["name"], "arguments": json.dumps(block.get("input") or {}, ensure_ascii=False)}
    return {"id": block["id"], "type": "function", "function": function}


def _content(given: Any) -> Any:
    """The content of a message: text where all of it is text, or else parts in the form of chat."""
    if not isinstance(given, list):
        return given
    parts = [_part(block) for block in given if block.get("type") not in THOUGHT]
    if all(part.get("type") == "text" for part in parts):
        return "\n\n".join(part["text"] for part in parts)
    return parts


def _part(block: Block) -> Block:
    if block.get("type") == "text":
        return {"type": "text", "text": block.get("text") or ""}
    source = block.get("source") or {}
    if block.get("type") == "image":
        data = f"data:{source.get('media_type')};base64,{source.get('data')}"
        return {"type": "image_url", "image_url": {"url": source.get("url") or data}}
    return block


class MessagesApi:
    def __init__(self, call: Call) -> None:
        self.call = call
        self._open = False
        """Whether the block with the text has begun."""

    def opening(self, exchange: Exchange) -> bytes:
        return _event("message_start", message=self._message(exchange, [], ended=False))

    def piece(self, exchange: Exchange, piece: Piece) -> bytes:
        if piece.calls:
            return b""
        begun = b"" if self._open else self._begin(0, {"type": "text", "text": ""})
        self._open = True
        return begun + _event("content_block_delta", index=0, delta={"type": "text_delta", "text": piece.text})

    def ending(self, exchange: Exchange) -> bytes:
        events = _event("content_block_stop", index=0) if self._open else b""
        for index, call in enumerate(_complete(exchange), int(self._open)):
            block = {"type": "tool_use", "id": call.id, "name": call.function.name, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": call.function.arguments or "{}"}
            events += self._begin(index, block)
            events += _event("content_block_delta", index=index, delta=delta)
            events += _event("content_block_stop", index=index)
        ended = {"stop_reason": _end(exchange), "stop_sequence": exchange.answer.sent.stop}
        events += _event("message_delta", delta=ended, usage=_usage(exchange), outrider=marks_of(exchange))
        return events + _event("message_stop")

    def failed(self, exchange: Exchange, error: GatewayRefused) -> bytes:
        return b"event: error\ndata: %s\n\n" % error_body(error)

    def whole(self, exchange: Exchange) -> bytes:
        text = exchange.answer.sent.text
        blocks: list[Block] = [{"type": "text", "text": text}] if text else []
        for call in _complete(exchange):
            given = parse(call.function.arguments or "{}")
            blocks.append({"type": "tool_use", "id": call.id, "name": call.function.name, "input": given})
        return msgspec.json.encode(self._message(exchange, blocks, ended=True))

    def _begin(self, index: int, block: Block) -> bytes:
        return _event("content_block_start", index=index, content_block=block)

    def _message(self, exchange: Exchange, blocks: list[Block], *, ended: bool) -> dict[str, Any]:
        answer = exchange.answer
        return {
            "id": f"msg_{answer.id.removeprefix('chatcmpl-')}",
            "type": "message",
            "role": "assistant",
            "model": answer.model if ended else exchange.model,
            "content": blocks,
            "stop_reason": _end(exchange) if ended else None,
            "stop_sequence": answer.sent.stop if ended else None,
            "usage": _usage(exchange),
            **({"outrider": marks_of(exchange, spans=True)} if ended else {}),
        }


def error_body(error: GatewayRefused) -> bytes:
    kind = ERRORS.get(error.status, "invalid_request_error" if error.status < 500 else "api_error")
    return msgspec.json.encode({"type": "error", "error": {"type": kind, "message": str(error)}})


def _complete(exchange: Exchange) -> list[ToolCall]:
    """The calls whose arguments are complete: all of them, unless a limit has cut the answer."""
    empty = "" if exchange.finish == "length" else "{}"
    return [call for call in exchange.calls if isinstance(parse(call.function.arguments or empty), dict)]


def _end(exchange: Exchange) -> str:
    return ENDS.get(exchange.finish, "end_turn" if exchange.answer.sent.stop is None else "stop_sequence")


def _usage(exchange: Exchange) -> dict[str, int]:
    return {"input_tokens": exchange.usage.prompt_tokens, "output_tokens": exchange.usage.completion_tokens}


def _event(kind: str, **fields: Any) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), msgspec.json.encode({"type": kind, **fields}))
