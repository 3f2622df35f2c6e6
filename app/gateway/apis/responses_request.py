"""Reads the body of `POST /v1/responses`: its items become the messages of a request for chat.

Tools that OpenAI's own servers run, such as `web_search`, are left out, because nobody here runs them: the model is not
told of them. A tool that takes plain text (`custom`) is offered as a function with one text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from app.gateway.call import Call, joined_system, read_call, unreadable
from app.gateway.refusals import GatewayRefused
from remote.openai.request_fields import UNSUPPORTED, FieldRefused, Neutral, read_fields, refuse_fields

Message = dict[str, Any]
NOT_HERE: Neutral = {
    "background": (False,),
    "conversation": (),
    "prompt": (),
    "top_logprobs": (0,),
}
KEPT_FIELDS = ("model", "temperature", "top_p", "stream")
"""Fields with the same meaning in a request for chat."""
NOTHING_SAID = (
    "reasoning", "web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call",
    "computer_call",
)  # fmt: skip
"""Types of items that are skipped: thoughts, and what OpenAI's own servers did."""
TEXT_INPUT = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
"""Parameters of a tool that takes plain text."""
DEFAULT_NAMESPACE = "functions"


class Offered(NamedTuple):
    name: str
    custom: bool = False
    """Whether it takes plain text instead of JSON."""
    namespace: str | None = None


@dataclass(frozen=True)
class ResponsesRequest:
    call: Call
    given: Mapping[str, Any]
    """All its fields."""
    messages: Sequence[Message]
    """The conversation, without the instructions, which hold for this answer only."""
    offered: Mapping[str, Offered]
    """The tools by the names that the model knows."""


class Conversations:
    """The newest conversations by the ids of their responses, for `previous_response_id`; forgotten at the end."""

    MOST = 256
    MOST_BYTES = 64 << 20

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    def keep(self, name: str, messages: Sequence[Message]) -> None:
        self._kept[name] = msgspec.json.encode(messages)
        while len(self._kept) > self.MOST or sum(map(len, self._kept.values())) > self.MOST_BYTES:
            del self._kept[next(iter(self._kept))]

    def before(self, name: str) -> list[Message]:
        """The conversation up to this response. Raises `GatewayRefused`."""
        if (found := self._kept.get(name)) is None:
            raise GatewayRefused(
                f"There is no response {name!r} to continue. Send the whole conversation as input.",
                "previous_response_id",
                code="previous_response_not_found",
            )
        return msgspec.json.decode(found, type=list[Message])


def read_responses(body: bytes, conversations: Conversations) -> ResponsesRequest:
    """Read a request. Raises `GatewayRefused`."""
    try:
        given = read_fields(body)
        refuse_fields(given, NOT_HERE, "the gateway does not support it")
        if not isinstance(given.get("input"), str | list):
            raise GatewayRefused("The request cannot be read: `input` is a text, or a list of items.", "input")
        previous = given.get("previous_response_id")
        messages = [*(conversations.before(str(previous)) if previous else ()), *_messages(given.get("input"))]
        offered: dict[str, Offered] = {}
        tools = list(_tools(given.get("tools") or (), offered, None))
        fields: dict[str, Any] = {name: given[name] for name in KEPT_FIELDS if given.get(name) is not None}
        system = given.get("instructions")
        fields["messages"] = joined_system([*([{"role": "system", "content": system}] if system else ()), *messages])
        if tools:
            fields |= {"tools": tools, "tool_choice": _choice(given.get("tool_choice"), offered)}
            if given.get("parallel_tool_calls") is not None:
                fields["parallel_tool_calls"] = given["parallel_tool_calls"]
        if given.get("max_output_tokens") is not None:
            fields["max_tokens"] = given["max_output_tokens"]
        fields |= _formats(given)
    except FieldRefused as error:
        raise GatewayRefused(str(error), error.param, code=error.reason) from None
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise unreadable(error) from None
    try:
        return ResponsesRequest(read_call(msgspec.json.encode(fields)), given, messages, offered)
    except GatewayRefused as error:
        if error.parameter != "messages":
            raise
        said = str(error).replace("`$.messages`", "`$.input`")
        raise GatewayRefused(said, "input", code=error.code) from None


def _formats(given: Mapping[str, Any]) -> dict[str, Any]:
    """How the answer is to look, in the terms of chat."""
    fields: dict[str, Any] = {}
    wanted = (given.get("text") or {}).get("format")
    if wanted is not None and wanted.get("type") != "text":
        kind = wanted.get("type")
        named = {name: wanted[name] for name in ("name", "schema", "strict", "description") if name in wanted}
        fields["response_format"] = {"type": kind, **({"json_schema": named} if kind == "json_schema" else {})}
    if effort := (given.get("reasoning") or {}).get("effort"):
        fields["reasoning_effort"] = effort
    return fields


# ---- tools -----------------------------------------------------------------------------------------------------------


def _tools(given: Iterable[Any], offered: dict[str, Offered], namespace: str | None) -> Iterable[Message]:
    """The functions of a list of tools, in the form of chat. `offered` gets their names."""
    for tool in given:
        kind = tool.get("type")
        if kind == "namespace":
            inner = None if tool["name"] == DEFAULT_NAMESPACE else str(tool["name"])
            yield from _tools(tool.get("tools") or (), offered, inner)
        elif kind in ("function", "custom"):
            one = Offered(str(tool["name"]), kind == "custom", namespace)
            known = called(one.name, namespace)
            offered[known] = one
            told = {name: tool[name] for name in ("description", "strict") if tool.get(name) is not None}
            parameters = TEXT_INPUT if one.custom else tool.get("parameters") or {"type": "object", "properties": {}}
            yield {"type": "function", "function": {"name": known, **told, "parameters": parameters}}


def called(name: str, namespace: str | None) -> str:
    """The name of a tool for the model."""
    return name if namespace in (None, DEFAULT_NAMESPACE) else f"{namespace}__{name}"


def _choice(given: Any, offered: Mapping[str, Offered]) -> Any:
    """Which tool is to be called, in the terms of chat. Raises `FieldRefused`."""
    if given is None or isinstance(given, str):
        return given or "auto"
    if given.get("type") in ("function", "custom"):
        name = called(str(given.get("name")), given.get("namespace"))
        if name in offered:
            return {"type": "function", "function": {"name": name}}
    raise FieldRefused(
        "tool_choice names a tool that is not offered here. Name one of the functions in tools, or send auto.",
        "tool_choice",
        UNSUPPORTED,
    )


# ---- items -----------------------------------------------------------------------------------------------------------


def _messages(given: Any) -> list[Message]:
    """The messages of an input. Raises `FieldRefused`."""
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    messages: list[Message] = []
    for item in given or ():
        kind = item.get("type") or "message"
        if kind == "message":
            messages.append({"role": item.get("role"), "content": _content(item.get("content"))})
        elif kind in ("function_call", "custom_tool_call"):
            _add_call(messages, item, custom=kind == "custom_tool_call")
        elif kind in ("function_call_output", "custom_tool_call_output"):
            content = _content(item.get("output"))
            messages.append({"role": "tool", "tool_call_id": item.get("call_id"), "content": content or ""})
        elif kind not in NOTHING_SAID:
            raise FieldRefused(f"An item of type {kind!r} is not supported. Leave it out.", "input", UNSUPPORTED)
    return messages


def _add_call(messages: list[Message], item: Mapping[str, Any], *, custom: bool) -> None:
    """Add a call to the assistant's message that it belongs to."""
    arguments = json.dumps({"input": item.get("input") or ""}) if custom else item.get("arguments") or "{}"
    name = called(str(item.get("name")), item.get("namespace"))
    call = {"id": item.get("call_id"), "type": "function", "function": {"name": name, "arguments": arguments}}
    if not messages or messages[-1]["role"] != "assistant":
        messages.append({"role": "assistant", "content": None})
    messages[-1].setdefault("tool_calls", []).append(call)


def _content(given: Any) -> Any:
    """The content of a message: text where all of it is text, or else parts in the form of chat."""
    if not isinstance(given, list):
        return given
    parts = [_part(part) for part in given]
    if all(isinstance(part, dict) and part.get("type") == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts


def _part(part: Any) -> Any:
    kind = part.get("type")
    if kind in ("input_text", "output_text", "text"):
        return {"type": "text", "text": part.get("text") or ""}
    if kind == "input_image" and part.get("image_url"):
        return {"type": "image_url", "image_url": {"url": part["image_url"]}}
    return part
