"""Reads requests of OpenAI's API for whoever answers them: the verifier, and the gateway on a device.

A field that would change the answer but is not supported is refused by name, never ignored. A field that changes
nothing is ignored.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from remote.openai.lenient_json import BOM
from remote.openai.schema import ChatRequest, Prediction

Request = TypeVar("Request", bound=msgspec.Struct)
Role = Literal["system", "user", "assistant"]
ROLES: Mapping[str, Role] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
UNSUPPORTED = "unsupported_parameter"
"""OpenAI's code of an error for a parameter that a model does not take."""
Neutral = Mapping[str, Sequence[object]]
"""Unsupported fields -> the values, other than null, at which they change nothing."""
FOREIGN: Neutral = {
    "min_p": (0,),
    "typical_p": (1,),
    "repetition_penalty": (1,),
    "repeat_penalty": (1,),
    "min_tokens": (0,),
    "ignore_eos": (False,),
    "stop_token_ids": ([],),
    "use_beam_search": (False,),
    "guided_json": (),
    "guided_regex": (),
    "guided_choice": (),
    "guided_grammar": (),
    "structured_outputs": (),
    "grammar": ("",),
    "ebnf": ("",),
    "regex": ("",),
    "json_schema": (),
    "bad_words": ([],),
    "suffix": ("",),
    "modalities": (["text"],),
    "audio": (),
    "web_search_options": (),
}
"""Fields of other servers and other models."""
CHAT_ALONE: Neutral = {
    "messages": ([],),
    "max_completion_tokens": (),
    "response_format": ({"type": "text"},),
    "prediction": (),
    "top_logprobs": (0,),
    "continue_final_message": (False,),
    "add_generation_prompt": (False,),
}
"""Fields of chat that plain text does not have, apart from tools."""
FUNCTIONS: Neutral = {"functions": ([],), "function_call": ("auto", "none")}
"""What tools were called once."""
TEXT_ALONE: Neutral = {"prompt": ("", []), "best_of": (1,), "echo": (False,)}
"""Fields of plain text that chat does not have."""
SAID = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}
"""Types of message parts that are read -> the field with their text."""
LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
"""Fields with the most tokens of an answer."""
MOST_TOKENS = (1 << 31) - 1
NO_LIMIT = -1
"""How llama.cpp's server and LM Studio take a request for as long an answer as the model writes."""
THOUGHT = ("thinking", "redacted_thinking", "reasoning", "reasoning_text")
"""Types of parts of an earlier answer that are skipped: models do not read their thoughts again."""
NO_TOOLS = "tools are not supported here. Leave out the calls and their results, or begin a new conversation."
TOOLS = {"tools": "tool_choice", "functions": "function_call"}
"""Fields with lists of tools -> the field that says whether they may be called."""


class AskedMessage(msgspec.Struct, frozen=True):
    """A message of a request, as programs send it; see `text_of`."""

    role: str
    content: Any = None
    refusal: Any = None
    """An earlier answer's refusal, instead of its content."""
    tool_calls: Any = None
    tool_call_id: Any = None


class AskedPrediction(Prediction, frozen=True, kw_only=True):
    content: Any = ""


class AskedChat(ChatRequest, frozen=True, kw_only=True):
    """A request for chat, as programs send it."""

    messages: Annotated[tuple[AskedMessage, ...], Meta(min_length=1)]  # type: ignore[assignment]
    prediction: AskedPrediction | None = None
    tools: Any = None
    tool_choice: Any = None


class FieldRefused(Exception):
    """A request that cannot be answered as asked. The message says why.

    `param`: the field that it is about, or None for the body as a whole. `reason`: the error's code in OpenAI's API.
    """

    def __init__(self, message: str, param: str | None = None, reason: str | None = None) -> None:
        super().__init__(message)
        self.param, self.reason = param, reason


def unsupported(param: str, why: str, advice: str = "Leave it out.") -> FieldRefused:
    """The error for an unsupported field. `advice`: a sentence that says what to do."""
    return FieldRefused(f"{param} cannot be used: {why}. {advice}", param, UNSUPPORTED)


def prepared(kind: type[Request]) -> type[Request]:
    """The given struct type, ready to be decoded in any thread. Call it at import time.

    msgspec prepares a struct when it is first read. Two threads that do so at the same moment crash the process
    (msgspec 0.22).
    """
    msgspec.json.Decoder(kind)
    return kind


def read_request(body: bytes, kind: type[Request]) -> tuple[dict[str, Any], Request]:
    """All fields of a body, and the typed fields of a `prepared` kind.

    Raises `FieldRefused`, also for a field whose value is not one of those in `FOREIGN`.
    """
    given = read_fields(body, MOST_TOKENS)
    return given, read_typed(given, kind, FOREIGN)


def read_fields(body: bytes, most: int | None = None) -> dict[str, Any]:
    """All fields of a body. Raises `FieldRefused`.

    A byte order mark before them is skipped: some programs on Windows write one. A limit of -1 counts as not set. For
    plain text, whose default is low, it is `most`.
    """
    with _readable():
        given = msgspec.json.decode(body.removeprefix(BOM), type=dict[str, Any])
    for name in LIMITS:
        if given.get(name) == NO_LIMIT:
            given[name] = most if "prompt" in given else None
    return given


def read_typed(given: Mapping[str, Any], kind: type[Request], neutral: Neutral) -> Request:
    """The typed fields of a `prepared` kind; see `read_request`. Raises `FieldRefused`."""
    with _readable():
        request = _converted(given, kind)
    refuse_fields(given, neutral, "this server does not support it")
    return request


@contextlib.contextmanager
def _readable() -> Iterator[None]:
    """Turns msgspec's errors into `FieldRefused`."""
    try:
        yield
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        field = re.search(r"`\$\.(\w+)", str(error)) or re.search(r"missing required field `(\w+)`", str(error))
        told = f"The request cannot be read: {error}."
        raise FieldRefused(told, None if field is None else field[1]) from None


def refuse_fields(given: Mapping[str, Any], neutral: Neutral, why: str, advice: str = "Leave it out.") -> None:
    """Raise `FieldRefused` for a field whose value is not one of those in `neutral`."""
    for name, values in neutral.items():
        if given.get(name) is not None and given[name] not in values:
            raise unsupported(name, why, advice)


def _converted(given: Mapping[str, Any], kind: type[Request]) -> Request:
    """The typed fields of a kind. A number such as 6.0 is whole: some programs write all numbers in that form.

    Raises `msgspec.ValidationError`.
    """
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError:
        return msgspec.convert(_with_whole_numbers(given), kind)


def _with_whole_numbers(value: Any) -> Any:
    """Decoded JSON with whole numbers as `int`, however they were written."""
    if isinstance(value, dict):
        return {name: _with_whole_numbers(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_with_whole_numbers(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def offers_tools(given: Mapping[str, Any]) -> bool:
    """Whether the model may call tools, or a message calls one or has its result. `given`: all fields, unchecked."""
    messages = given.get("messages")
    return (bool(given.get("tools")) and given.get("tool_choice") != "none") or any(
        isinstance(message, dict) and (bool(message.get("tool_calls")) or message.get("role") == "tool")
        for message in (messages if isinstance(messages, list) else ())
    )


def refuse_tools(given: Mapping[str, Any]) -> None:
    """Raise `FieldRefused` if the model is offered tools that it might call, or a message calls one."""
    for message in given.get("messages") or ():
        if message.get("tool_calls") or message.get("function_call"):
            raise FieldRefused(f"A message calls a tool, and {NO_TOOLS}", "messages", UNSUPPORTED)
    for tools, choice in TOOLS.items():
        if given.get(choice) == "none":
            continue
        for name in (tools, choice):
            if given.get(name) not in (None, [], "auto"):
                advice = "Send tool_choice: none, or leave the tools out."
                none = name == "tool_choice" and not given.get("tools")
                raise unsupported(name, "there are no tools" if none else "tools are not supported here", advice)


def role_of(message: AskedMessage) -> Role:
    """The role of a message. Raises `FieldRefused`."""
    if message.role in ("tool", "function"):
        raise FieldRefused(f"A message is the result of a tool, and {NO_TOOLS}", "messages", UNSUPPORTED)
    if (role := ROLES.get(message.role)) is None:
        raise FieldRefused(f"A message of role {message.role!r}; known are {', '.join(ROLES)}.", "messages")
    return role


def text_of(content: Any, field: str = "messages") -> str:
    """The text of a message's content, or of another `field`: a string, a part, or a list of either.

    Raises `FieldRefused` for a part that is not text and would be lost.
    """
    parts = content if isinstance(content, list) else [content]
    return "\n".join(filter(None, (_said(part, field) for part in parts)))


def text_said(message: AskedMessage) -> str:
    """The text of a message. Raises `FieldRefused`."""
    return text_of(message.content) or (message.refusal if isinstance(message.refusal, str) else "")


def _said(part: Any, field: str) -> str:
    if part is None or isinstance(part, str):
        return part or ""
    kind = str(part.get("type") or "text") if isinstance(part, dict) else type(part).__name__
    if kind in THOUGHT:
        return ""
    said = part.get(SAID[kind], "") if kind in SAID else 0
    if said is None or isinstance(said, str):
        return said or ""
    raise FieldRefused(f"A message holds a part of type {kind!r}; this model reads text only.", field)
