"""Reads and checks the body of a request for a chat completion.

A request with tools is for the server: it is passed on as it came, and only what the gateway cannot hand back is
refused.

A parameter that would change the answer but is not supported is refused by name. Unknown fields, and those that change
nothing here, are ignored, because every client adds some.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple

from msgspec import Meta

from app.gateway.refusals import GatewayRefused
from remote.openai.dialect import SYSTEM
from remote.openai.request_fields import (
    FOREIGN,
    FUNCTIONS,
    AskedChat,
    AskedMessage,
    FieldRefused,
    Neutral,
    Role,
    offers_tools,
    prepared,
    read_fields,
    read_typed,
    refuse_tools,
    role_of,
    text_said,
)
from storage import Choices

MOST_MESSAGES = 1 << 16
"""Each becomes a row of the scratch database."""
SEED_BITS = 32
NOT_HERE: Neutral = {
    "n": (1,),
    "best_of": (1,),
    "echo": (False,),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "logit_bias": ({},),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "response_format": ({"type": "text"},),
    "continue_final_message": (False,),
    "add_generation_prompt": (True,),
}
"""Parameters that a server may support, but not the small model that continues without it."""

NOT_HANDED_BACK: Neutral = {
    "n": (1,),
    "best_of": (1,),
    "echo": (False,),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "modalities": (["text"],),
    "audio": (),
    **FUNCTIONS,
}
"""Parameters for what the answer to a request with tools does not carry."""

PLAIN_TEXT = "/completions"
"""The path of plain text at a server."""
CONTINUE = "Continue."
"""The question that is asked if an answer is the last message."""

Turn = tuple[Role, str]
"""Who says what."""


class _Request(AskedChat, frozen=True, kw_only=True):
    """A request within the limits of the settings."""

    messages: Annotated[tuple[AskedMessage, ...], Meta(min_length=1, max_length=MOST_MESSAGES)]
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None


REQUEST = prepared(_Request)


class Call(NamedTuple):
    turns: tuple[Turn, ...]
    """The conversation. Its last turn is the question."""
    choices: Choices
    """How it is sampled. There is always a seed, so that the model can check what was sampled without it."""
    stops: tuple[str, ...] = ()
    model: str = ""
    """The model that it names; may be empty."""
    stream: bool = False
    counts: bool = False
    """Whether the stream ends with token counts."""
    relayed: Mapping[str, Any] | None = None
    """The request's own fields, if it is passed on to the server: it has tools, or asks for plain text."""
    path: str = "/chat/completions"
    """The server's path that it is passed on to."""

    @property
    def history(self) -> tuple[Turn, ...]:
        return self.turns[:-1]

    @property
    def question(self) -> str:
        return self.turns[-1][1]


def read_call(body: bytes) -> Call:
    """Read a request. Raises `GatewayRefused`."""
    try:
        given = read_fields(body)
        if tools := offers_tools(given):
            asked = read_typed(given, REQUEST, NOT_HANDED_BACK)
        else:
            asked = read_typed(given, REQUEST, {**FOREIGN, **NOT_HERE})
            refuse_tools(given)
        turns = () if tools else _turns(asked.messages)
    except FieldRefused as error:
        raise GatewayRefused(str(error), error.param, code=error.reason) from None
    choices = Choices(
        temperature=asked.temperature,
        top_p=asked.top_p,
        top_k=None if asked.top_k is None else max(0, asked.top_k),
        seed=secrets.randbits(SEED_BITS) if asked.seed is None else asked.seed,
        max_tokens=asked.max_completion_tokens or asked.max_tokens,
    )
    stops = (asked.stop,) if isinstance(asked.stop, str) else asked.stop or ()
    options = asked.stream_options
    return Call(
        turns,
        choices,
        tuple(stop for stop in stops if stop),
        asked.model or "",
        stream=bool(asked.stream),
        counts=options is not None and bool(options.include_usage),
        relayed={name: value for name, value in given.items() if value is not None} if tools else None,
    )


def unreadable(error: Exception) -> GatewayRefused:
    """The refusal of a body that was read as if it had the right shape."""
    what = f"lacks {error}" if isinstance(error, KeyError) else "has the wrong type for this API"
    return GatewayRefused(f"The request cannot be read: a part of it {what}.")


def joined_system(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages with all system texts joined into one at the beginning.

    Codex and Claude Code send several, also after a question, and many chat templates take only one.
    """
    system, others = list[dict[str, Any]](), list[dict[str, Any]]()
    for message in messages:
        merged = message.get("role") in SYSTEM and isinstance(message.get("content"), str)
        (system if merged else others).append(message)
    said = "\n\n".join(dict.fromkeys(one["content"] for one in system if one["content"]))
    return [*([{"role": "system", "content": said}] if said else ()), *others]


def _turns(messages: tuple[AskedMessage, ...]) -> tuple[Turn, ...]:
    """The conversation, which ends with a question.

    Chat templates require alternating roles: adjacent messages of one role become one turn, a system message after a
    question is moved before it, and an answer without text is dropped. Raises `FieldRefused`.
    """
    turns: list[Turn] = []
    for message in messages:
        role, text = role_of(message), text_said(message)
        if role == "assistant" and not text.strip():
            continue
        question = turns.pop() if role == "system" and turns and turns[-1][0] == "user" else None
        for turn in ((role, text), question):
            if turn is not None:
                _add(turns, *turn)
    if not turns:
        raise FieldRefused("The messages contain nothing to answer.", "messages")
    if turns[-1][0] == "assistant":
        turns.append(("user", CONTINUE))
    elif turns[-1][0] == "system":
        turns.append(("user", turns.pop()[1]))
    return tuple(turns)


def _add(turns: list[Turn], role: Role, text: str) -> None:
    if turns and turns[-1][0] == role:
        text = f"{turns.pop()[1]}\n\n{text}"
    turns.append((role, text))
