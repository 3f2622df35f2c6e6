"""`POST /v1/responses`: answers as items of OpenAI's newer API, used by Codex and the Agents SDK."""

from __future__ import annotations

from typing import Any

import msgspec

from app.gateway.apis.chat_api import marks_of
from app.gateway.apis.responses_request import Conversations, Offered, ResponsesRequest
from app.gateway.exchange import Exchange
from app.gateway.refusals import GatewayRefused
from app.gateway.sent_text import Piece
from remote.openai.lenient_json import UNREADABLE, parse
from remote.openai.schema import CalledFunction, ToolCall, ToolCallDelta

Item = dict[str, Any]
ECHOED = ("instructions", "max_output_tokens", "previous_response_id", "temperature", "top_p", "reasoning", "user")
"""Fields that a response repeats from its request."""


class ResponsesApi:
    def __init__(self, request: ResponsesRequest, conversations: Conversations) -> None:
        self._request, self._conversations = request, conversations
        self.call = request.call
        self._events = 0
        self._items: list[Item] = []
        """The items of the answer in order, each as far as it is known."""
        self._places: dict[int, int] = {}
        """The index of a call -> its place among the items."""

    # ---- a stream ----------------------------------------------------------------------------------------------------

    def opening(self, exchange: Exchange) -> bytes:
        response = self._response(exchange, "in_progress")
        return self._event("response.created", response=response) + self._event(
            "response.in_progress", response=response
        )

    def piece(self, exchange: Exchange, piece: Piece) -> bytes:
        if piece.calls:
            return b"".join(self._called(exchange, delta) for delta in piece.calls)
        events = b""
        if not self._items or self._items[-1]["type"] != "message":
            events = self._begin({**_message(exchange, len(self._items), ""), "status": "in_progress", "content": []})
            self._items[-1]["content"].append(_text(""))
            events += self._event("response.content_part.added", **self._part(), part=_text(""))
        self._items[-1]["content"][0]["text"] += piece.text
        return events + self._event("response.output_text.delta", **self._part(), delta=piece.text, logprobs=[])

    def ending(self, exchange: Exchange) -> bytes:
        status = self._status(exchange)
        for item in self._items:
            item["status"] = _status_of(item, status)
        events = b"".join(self._finish(at) for at, item in enumerate(self._items) if item["status"] == "completed")
        self._keep(exchange)
        return events + self._event(f"response.{status}", response=self._response(exchange, status))

    def failed(self, exchange: Exchange, error: GatewayRefused) -> bytes:
        self._items = []  # Nothing half is left for a client to act on.
        response = self._response(exchange, "failed")
        response["error"] = {"code": error.code or "server_error", "message": str(error)}
        return self._event("response.failed", response=response)

    def _begin(self, item: Item) -> bytes:
        self._items.append(item)
        return self._event("response.output_item.added", output_index=len(self._items) - 1, item=item)

    def _called(self, exchange: Exchange, delta: ToolCallDelta) -> bytes:
        events, arguments = b"", delta.function.arguments or ""
        if delta.index not in self._places:
            self._places[delta.index] = len(self._items)
            begun = ToolCall(delta.id or "", function=CalledFunction(delta.function.name or "", ""))
            events = self._begin({**self._item(exchange, begun, len(self._items)), "status": "in_progress"})
        place = self._places[delta.index]
        item = self._items[place]
        if item["type"] == "custom_tool_call":
            item["input"] += arguments  # JSON until it is complete.
            return events
        item["arguments"] += arguments
        if arguments:
            where = {"item_id": item["id"], "output_index": place}
            events += self._event("response.function_call_arguments.delta", **where, delta=arguments)
        return events

    def _finish(self, place: int) -> bytes:
        """The events with which an item is complete."""
        item = self._items[place]
        where = {"item_id": item["id"], "output_index": place}
        events = b""
        if item["type"] == "message":
            part = {**where, "content_index": 0}
            text = item["content"][0]["text"]
            events = self._event("response.output_text.done", **part, text=text, logprobs=[])
            events += self._event("response.content_part.done", **part, part=item["content"][0])
        elif item["type"] == "custom_tool_call":
            item["input"] = plain_input(item["input"])
            events = self._event("response.custom_tool_call_input.delta", **where, delta=item["input"])
            events += self._event("response.custom_tool_call_input.done", **where, input=item["input"])
        else:
            said = {"arguments": item["arguments"], "name": item["name"]}
            events = self._event("response.function_call_arguments.done", **where, **said)
        return events + self._event("response.output_item.done", output_index=place, item=item)

    def _part(self) -> dict[str, Any]:
        """Where the text of the last item is."""
        return {"item_id": self._items[-1]["id"], "output_index": len(self._items) - 1, "content_index": 0}

    def _event(self, kind: str, **fields: Any) -> bytes:
        data = msgspec.json.encode({"type": kind, "sequence_number": self._events, **fields})
        self._events += 1
        return b"event: %s\ndata: %s\n\n" % (kind.encode(), data)

    # ---- the response ------------------------------------------------------------------------------------------------

    def whole(self, exchange: Exchange) -> bytes:
        text = exchange.answer.sent.text
        if text or not exchange.calls:
            self._items.append(_message(exchange, 0, text))
        for call in exchange.calls:
            self._items.append(self._item(exchange, call, len(self._items)))
        status = self._status(exchange)
        for item, call in zip(self._items[-len(exchange.calls) :], exchange.calls):
            item["status"] = "completed" if status == "completed" or _complete(call.function.arguments) else status
        self._keep(exchange)
        return msgspec.json.encode(self._response(exchange, status))

    def _status(self, exchange: Exchange) -> str:
        return "incomplete" if exchange.finish in ("length", "content_filter") else "completed"

    def _response(self, exchange: Exchange, status: str) -> dict[str, Any]:
        given, ended = self._request.given, status not in ("in_progress", "failed")
        used = exchange.usage
        reason = {"length": "max_output_tokens", "content_filter": "content_filter"}.get(exchange.finish)
        return {
            "id": _named("resp", exchange),
            "object": "response",
            "created_at": exchange.answer.created,
            "status": status,
            "error": None,
            "incomplete_details": {"reason": reason} if status == "incomplete" else None,
            "model": exchange.answer.model if ended else exchange.model,
            "output": self._items,
            "parallel_tool_calls": given.get("parallel_tool_calls") is not False,
            "tools": given.get("tools") or [],
            "tool_choice": given.get("tool_choice") or "auto",
            "text": given.get("text") or {"format": {"type": "text"}},
            "truncation": "disabled",
            "store": given.get("store") is not False,
            "metadata": given.get("metadata") or {},
            **{name: given.get(name) for name in ECHOED},
            "usage": {
                "input_tokens": used.prompt_tokens,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": used.completion_tokens,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": used.total_tokens,
            }
            if ended
            else None,
            **({"outrider": marks_of(exchange, spans=True)} if ended else {}),
        }

    def _item(self, exchange: Exchange, call: ToolCall, number: int) -> Item:
        name, arguments = call.function.name, call.function.arguments
        tool = self._request.offered.get(name, Offered(name))
        item: Item = {"call_id": call.id, "name": tool.name, "status": "completed"}
        if tool.namespace is not None:
            item["namespace"] = tool.namespace
        if tool.custom:
            text = plain_input(arguments)
            return {"type": "custom_tool_call", "id": f"{_named('ctc', exchange)}_{number}", **item, "input": text}
        return {"type": "function_call", "id": f"{_named('fc', exchange)}_{number}", **item, "arguments": arguments}

    def _keep(self, exchange: Exchange) -> None:
        """Keep the conversation for a request that continues it."""
        if self._request.given.get("store") is False:
            return
        said: dict[str, Any] = {"role": "assistant", "content": exchange.answer.sent.text or None}
        if exchange.calls:
            said["tool_calls"] = exchange.calls
        self._conversations.keep(_named("resp", exchange), [*self._request.messages, said])


def plain_input(arguments: str) -> str:
    """The text for a tool that takes plain text, out of the JSON that the model wrote."""
    found = parse(arguments)
    return found["input"] if isinstance(found, dict) and isinstance(found.get("input"), str) else arguments


def _named(kind: str, exchange: Exchange) -> str:
    return f"{kind}_{exchange.answer.id.removeprefix('chatcmpl-')}"


def _text(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _message(exchange: Exchange, number: int, text: str) -> Item:
    name = f"{_named('msg', exchange)}_{number}"
    return {"type": "message", "id": name, "status": "completed", "role": "assistant", "content": [_text(text)]}


def _status_of(item: Item, status: str) -> str:
    """The status of an item in a response of this status. A call that was cut off is not complete."""
    if status == "completed" or item["type"] == "message":
        return "completed"
    return "completed" if _complete(str(item.get("arguments", item.get("input")))) else status


def _complete(arguments: str) -> bool:
    return parse(arguments) is not UNREADABLE
