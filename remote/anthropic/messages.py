"""A question in the shape of Anthropic's Messages API, with its tools and the calls and results of earlier answers."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from remote.openai.dialect import OPENING, SYSTEM
from remote.openai.lenient_json import parse
from remote.openai.request_fields import SAID, THOUGHT, UNSUPPORTED, FieldRefused
from remote.openai.schema import ChatMessage, ChatRequest, Content, ContentPart, ImageUrl, ToolCall

MAX_TOKENS = 32_000
"""Most tokens of an answer if nobody has set a limit and the list names none. The API requires one; a model that may
write less says so, and is asked again."""
REPEATED = 60
"""Most characters of an answer that are repeated, so that it is continued at the right place."""
LEAST = 20
"""Fewest characters that another answer hardly begins with by chance, if there are as many."""
GO_ON = (
    "Your last message broke off. Go on where it ended, without a comment. Begin by repeating its last words exactly, "
    "and continue from there. They are:\n\n{}"
)
CHOICES = {"auto": "auto", "any": "required", "none": "none"}
"""Which tools are to be called, in terms of this API -> of OpenAI's."""
NO_NAME = re.compile(r"[^\w-]", re.ASCII)
"""Characters that the id of a call may not have here. Other servers' ids have some."""
DATA = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,(.*)", re.DOTALL)
"""An image that is sent along, and its type."""


class Message(msgspec.Struct, frozen=True):
    role: str
    content: str | list[dict[str, Any]]


class MessagesRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`POST /v1/messages`."""

    model: str
    max_tokens: int
    messages: list[Message]
    system: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop_sequences: list[str] = []
    tools: list[dict[str, Any]] = []
    tool_choice: dict[str, Any] | None = None
    stream: bool = False


def last_words(message: ChatMessage) -> str:
    """The end of a message, from the beginning of a word: of its last line, and of earlier ones if that is short."""
    *lines, words = _text(message.content).strip().split("\n")
    while lines and len(words) < LEAST:
        words = f"{lines.pop()}\n{words}"
    words = words.lstrip()
    return words if len(words) <= REPEATED else words[-REPEATED:].partition(" ")[2] or words[-REPEATED:]


def messages_request(request: ChatRequest, most: int, repeated: str = "") -> MessagesRequest:
    """The request in Anthropic's shape. `most`: tokens of the answer if the request sets no limit. `repeated`: the last
    words of an answer, with which the model is to begin when it continues that.

    Blank messages are left out, and white space at the end of a last message of the assistant: the API refuses both.
    It wants the results of tools at the beginning of a message.
    Raises `FieldRefused` for what this API cannot say.
    """
    told = [_text(message.content) for message in request.messages if message.role in SYSTEM]
    system = "\n\n".join(text for text in told if text.strip())
    spoken: list[Message] = []
    for message in request.messages:
        said = _message(message)
        if message.role in SYSTEM or not said.content:
            continue
        if spoken and spoken[-1].role == said.role:
            blocks = [*_listed(spoken.pop().content), *_listed(said.content)]
            said = Message(said.role, sorted(blocks, key=lambda block: block["type"] != "tool_result"))
        spoken.append(said)
    if not spoken or spoken[0].role != "user":
        spoken.insert(0, Message("user", OPENING))
    last = spoken[-1]
    if last.role == "assistant":
        spoken[-1] = Message(last.role, _trimmed(last.content))
    if repeated:
        spoken.append(Message("user", GO_ON.format(repeated)))
    stops = (request.stop,) if isinstance(request.stop, str) else request.stop or ()
    return MessagesRequest(
        model=request.model or "",
        max_tokens=request.max_tokens or most,
        messages=spoken,
        system=system or None,
        temperature=request.temperature,
        top_p=request.top_p,
        top_k=max(0, request.top_k or 0) or None,
        stop_sequences=[stop for stop in stops if stop.strip()],
        tools=_tools(request),
        tool_choice=_choice(request),
        stream=True,
    )


def _message(message: ChatMessage) -> Message:
    content = _blocks(message.content)
    if message.role == "tool":
        result = {"type": "tool_result", "tool_use_id": _id(message.tool_call_id or "")}
        return Message("user", [{**result, "content": content} if content else result])
    return Message(message.role, [*_listed(content), *map(_use, _calls(message))] if _calls(message) else content)


def _calls(message: ChatMessage) -> tuple[ToolCall, ...]:
    return message.tool_calls or ()


def _use(call: ToolCall) -> dict[str, Any]:
    """A call of an earlier answer. Arguments that are no JSON object, because they were cut off, are kept as text."""
    name, written = call.function.name, call.function.arguments
    found = parse(written or "{}")
    given = found if isinstance(found, dict) else {"arguments": written}
    return {"type": "tool_use", "id": _id(call.id), "name": name, "input": given}


def _id(name: str) -> str:
    return NO_NAME.sub("_", name)


def _tools(request: ChatRequest) -> list[dict[str, Any]]:
    """The tools that are offered, or else those of earlier calls, which this API wants to know."""
    offered = [
        {
            "name": tool.function.name,
            **({"description": tool.function.description} if tool.function.description else {}),
            "input_schema": {"type": "object", **(tool.function.parameters or {})},
        }
        for tool in request.tools or ()
    ]
    called = dict.fromkeys(call.function.name for message in request.messages for call in _calls(message))
    return offered or [{"name": name, "input_schema": {"type": "object"}} for name in called]


def _choice(request: ChatRequest) -> dict[str, Any] | None:
    """Which tools are to be called, or None if that is the model's decision. Raises `FieldRefused`."""
    if not request.tools:
        return {"type": "none"} if _tools(request) else None
    given, choice = request.tool_choice or "auto", dict[str, Any]()
    if isinstance(given, dict) and isinstance(named := given.get("function"), dict):
        choice = {"type": "tool", "name": named.get("name")}
    for kind, wanted in CHOICES.items():
        if given == wanted:
            choice = {"type": kind}
    if not choice:
        told = "tool_choice cannot be used in this form. Send auto, required, none, or the name of a function."
        raise FieldRefused(told, "tool_choice", UNSUPPORTED)
    if request.parallel_tool_calls is False and given != "none":
        choice["disable_parallel_tool_use"] = True
    return None if choice == {"type": "auto"} else choice


def _trimmed(content: str | list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    if isinstance(content, str):
        return content.rstrip()
    *before, last = content
    return [*before, {**last, "text": last["text"].rstrip()}] if last["type"] == "text" else content


def _listed(content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return content


def _blocks(content: Content | None) -> str | list[dict[str, Any]]:
    """The content of a message, empty if it is blank."""
    if content is None or isinstance(content, str):
        return content if content and content.strip() else ""
    return [block for part in content if (block := _block(part)) is not None]


def _block(part: ContentPart) -> dict[str, Any] | None:
    if part.type in SAID:
        return {"type": "text", "text": part.text} if part.text.strip() else None
    if part.type in THOUGHT:
        return None
    if part.image_url is None:
        told = f"A part of type {part.type!r} cannot be sent to Anthropic's API here. Send it as text, or leave it out."
        raise FieldRefused(told, "messages", UNSUPPORTED)
    url = part.image_url.url if isinstance(part.image_url, ImageUrl) else part.image_url
    if (held := DATA.fullmatch(url)) is None:
        return {"type": "image", "source": {"type": "url", "url": url}}
    return {"type": "image", "source": {"type": "base64", "media_type": held[1], "data": held[2]}}


def _text(content: Content | None) -> str:
    return content if isinstance(content, str) else "\n\n".join(part.text for part in content or ())
