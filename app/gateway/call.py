"""What a client asks for: the body of a request for a chat completion, read and checked.

What would change the answer and cannot be done is refused with the name of its parameter. Fields that nobody knows, and
those that change nothing here, are passed over, because every client adds some.
"""

from __future__ import annotations

import re
import secrets
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta

from app.gateway.refusals import GatewayRefused
from remote.openai.schema import ContentPart, StreamOptions
from storage import Choices

MOST_MESSAGES = 4096
"""Each becomes a row of the scratch database."""
SEED_BITS = 32
UNSUPPORTED = "unsupported_parameter"
ROLES: dict[str, Literal["system", "user", "assistant"]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
}
HARMLESS: dict[str, tuple[object, ...]] = {
    "n": (1,),
    "best_of": (1,),
    "echo": (False,),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "logit_bias": ({},),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "repetition_penalty": (1,),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "audio": (),
    "min_p": (0,),
    "min_tokens": (0,),
    "ignore_eos": (False,),
    "stop_token_ids": ([],),
    "reasoning_effort": (),
    "verbosity": (),
    "web_search_options": (),
    "continue_final_message": (False,),
    "add_generation_prompt": (True,),
}
"""Parameters that would change the answer and are not supported, with the values at which they change nothing."""
TOOLS = (("tools", "tool_choice"), ("functions", "function_call"))
"""Lists of tools, each with the parameter that says whether they may be used."""

Turn = tuple[Literal["system", "user", "assistant"], str]
"""Who says what."""


class _Message(msgspec.Struct, frozen=True):
    role: str
    content: str | tuple[ContentPart, ...] | None = None
    tool_calls: tuple[object, ...] | None = None
    function_call: object = None


class _Body(msgspec.Struct, frozen=True, kw_only=True):
    messages: Annotated[tuple[_Message, ...], Meta(min_length=1, max_length=MOST_MESSAGES)]
    model: str | None = None
    max_tokens: Annotated[int, Meta(ge=1, lt=1 << 31)] | None = None
    max_completion_tokens: Annotated[int, Meta(ge=1, lt=1 << 31)] | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    top_k: Annotated[int, Meta(ge=-1, lt=1 << 31)] | None = None
    seed: Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)] | None = None
    stop: str | Annotated[tuple[str, ...], Meta(max_length=16)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None


class Call(NamedTuple):
    """A request that can be answered."""

    turns: tuple[Turn, ...]
    """The conversation. Its last turn is the question."""
    choices: Choices
    """How it is sampled. A seed is always there, so that the model can check what was drawn without it."""
    stops: tuple[str, ...] = ()
    model: str = ""
    """The model that it names; empty: none."""
    stream: bool = False
    counts: bool = False
    """The stream ends with a count of tokens."""

    @property
    def history(self) -> tuple[Turn, ...]:
        """What was said before the question."""
        return self.turns[:-1]

    @property
    def question(self) -> str:
        return self.turns[-1][1]


def read_call(body: bytes) -> Call:
    """Read a request. Raises `GatewayRefused`."""
    try:
        fields: Any = msgspec.json.decode(body)
        if not isinstance(fields, dict):
            raise GatewayRefused("The body is no JSON object.")
        _check_unsupported(fields)
        asked = msgspec.convert(fields, _Body)
    except msgspec.ValidationError as error:
        said, _, place = str(error).partition(" - at ")
        name = re.match(r"`\$\.(\w+)", place)
        parameter = None if name is None else name[1]
        where = f"{parameter}: " if parameter else ""
        raise GatewayRefused(f"{where}{said.replace('`', '')}.", parameter) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise GatewayRefused(f"The body cannot be read as JSON: {error}.") from None
    top_k = None if asked.top_k is None else max(0, asked.top_k)
    choices = Choices(
        temperature=asked.temperature,
        top_p=asked.top_p,
        top_k=top_k,
        seed=secrets.randbits(SEED_BITS) if asked.seed is None else asked.seed,
        max_tokens=asked.max_completion_tokens or asked.max_tokens,
    )
    stops = (asked.stop,) if isinstance(asked.stop, str) else asked.stop or ()
    options = asked.stream_options
    return Call(
        _turns(asked.messages),
        choices,
        tuple(stop for stop in stops if stop),
        asked.model or "",
        stream=bool(asked.stream),
        counts=options is not None and bool(options.include_usage),
    )


def _check_unsupported(fields: dict[str, Any]) -> None:
    """Raises `GatewayRefused` for a parameter that would change the answer in a way that is not supported."""
    for tools, choice in TOOLS:
        if fields.get(tools) and fields.get(choice) != "none":
            raise GatewayRefused(
                f"The model here calls no tools. Send none, or set {choice} to none.",
                tools,
                code=UNSUPPORTED,
            )
    for name, harmless in HARMLESS.items():
        value = fields.get(name)
        if value is not None and value not in harmless:
            only = f"; only {msgspec.json.encode(harmless[0]).decode()} is" if harmless else ""
            raise GatewayRefused(f"{name} is not supported here with this value{only}.", name, code=UNSUPPORTED)


def _turns(messages: tuple[_Message, ...]) -> tuple[Turn, ...]:
    """The conversation. Neighbours of one role are one turn, because chat templates want the roles to alternate."""
    turns: list[Turn] = []
    for number, message in enumerate(messages):
        role = ROLES.get(message.role)
        if role is None:
            known = ", ".join(ROLES)
            raise GatewayRefused(f"messages[{number}] has the role {message.role!r}; known are {known}.", "messages")
        if message.tool_calls or message.function_call:
            raise GatewayRefused(f"messages[{number}] calls a tool, and the model here calls none.", "messages")
        text = _text(message, number)
        if turns and turns[-1][0] == role:
            text = f"{turns.pop()[1]}\n\n{text}"
        turns.append((role, text))
    if turns[-1][0] != "user":
        raise GatewayRefused("The last message must be the user's: it is the question that is answered.", "messages")
    return tuple(turns)


def _text(message: _Message, number: int) -> str:
    if message.content is None or isinstance(message.content, str):
        return message.content or ""
    if other := [part.type for part in message.content if part.type != "text"]:
        raise GatewayRefused(
            f"messages[{number}] holds a part of type {other[0]!r}; text alone can be read here.", "messages"
        )
    return "\n".join(part.text for part in message.content)
