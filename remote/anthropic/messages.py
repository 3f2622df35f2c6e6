"""A question in the shape of Anthropic's Messages API."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from remote.openai.dialect import OPENING
from remote.openai.schema import ChatMessage, ChatRequest, Content, ContentPart, ImageUrl

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
    """
    system = "\n\n".join(_text(message.content) for message in request.messages if message.role == "system")
    spoken = [
        Message(message.role, content)
        for message in request.messages
        if message.role != "system" and (content := _blocks(message.content))
    ]
    if not spoken or spoken[0].role != "user":
        spoken.insert(0, Message("user", OPENING))
    last = spoken[-1]
    if last.role == "assistant" and isinstance(last.content, str):
        spoken[-1] = Message(last.role, last.content.rstrip())
    if repeated:
        spoken.append(Message("user", GO_ON.format(repeated)))
    return MessagesRequest(
        model=request.model or "",
        max_tokens=request.max_tokens or most,
        messages=spoken,
        system=system or None,
        temperature=request.temperature,
        top_p=request.top_p,
        top_k=request.top_k,
        stream=True,
    )


def _blocks(content: Content | None) -> str | list[dict[str, Any]]:
    """The content of a message, empty if it is blank."""
    if content is None or isinstance(content, str):
        return content if content and content.strip() else ""
    return [block for part in content if (block := _block(part)) is not None]


def _block(part: ContentPart) -> dict[str, Any] | None:
    if part.type != "image_url":
        return {"type": "text", "text": part.text} if part.text.strip() else None
    url = part.image_url.url if isinstance(part.image_url, ImageUrl) else part.image_url or ""
    if (held := DATA.fullmatch(url)) is None:
        return {"type": "image", "source": {"type": "url", "url": url}}
    return {"type": "image", "source": {"type": "base64", "media_type": held[1], "data": held[2]}}


def _text(content: Content | None) -> str:
    return content if isinstance(content, str) else "\n\n".join(part.text for part in content or ())
