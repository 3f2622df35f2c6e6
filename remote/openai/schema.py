"""Chat completions in OpenAI's shape, which many servers and clients speak: JSON structs for both ends, and errors.

Unknown fields are ignored, because everybody adds some. `continue_final_message` and `add_generation_prompt` are vLLM's
names.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from remote.openai.lenient_json import number, parse, text
from remote.protocol import Error, ErrorCode, Positive

PATHS = ("/v1/chat/", "/v1/models")
"""Beginnings of the paths whose answers have this shape, errors included."""
EVENTS = "text/event-stream"
JSON = "application/json"
DONE = "[DONE]"
"""The data of a stream's last event."""
OWNER = "outrider"
CONTINUING = frozenset({OWNER, "vllm", "sglang"})
"""Servers, as they name the owner of their models, that can continue an answer with `continue_final_message`."""

MAX_CODE = 128
"""Longest code of an error, in characters."""

FinishReason = Literal["stop", "length"]


class ImageUrl(msgspec.Struct, frozen=True):
    """Where an image is: an address, or all of it as a `data:` URL."""

    url: str


class ContentPart(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part of a message. Parts of type `image_url` are sent to other servers; only text can be read here."""

    type: str
    text: str = ""
    image_url: ImageUrl | str | None = None


Content = str | tuple[ContentPart, ...]
"""What a message says: text, or parts if there is an image."""


class ChatMessage(msgspec.Struct, frozen=True):
    role: str = "assistant"
    content: Content | None = None


class StreamOptions(msgspec.Struct, frozen=True):
    include_usage: bool | None = None


class ChatRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`POST /v1/chat/completions`. None: the server's default."""

    messages: Annotated[tuple[ChatMessage, ...], Meta(min_length=1)]
    model: str | None = None
    max_tokens: Positive | None = None
    max_completion_tokens: Positive | None = None
    """The newer name of `max_tokens`."""
    temperature: Annotated[float, Meta(ge=0, le=100)] | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    top_k: Annotated[int, Meta(ge=-1, lt=1 << 31)] | None = None
    """Not in OpenAI's own API. 0 or -1: off."""
    seed: Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)] | None = None
    stop: str | Annotated[tuple[str, ...], Meta(max_length=16)] | None = None
    n: int | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    """The last message is the assistant's, and its text is to be continued."""


class Usage(msgspec.Struct, frozen=True):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0


class Delta(msgspec.Struct, frozen=True, omit_defaults=True):
    role: str | None = None
    content: str | None = None


class ChunkChoice(msgspec.Struct, frozen=True):
    index: int = 0
    delta: Delta = Delta()
    finish_reason: str | None = None


class Chunk(msgspec.Struct, frozen=True, kw_only=True):
    """An event of a stream."""

    id: str = ""
    object: str = "chat.completion.chunk"
    created: int = 0
    model: str = ""
    choices: tuple[ChunkChoice, ...] = ()
    usage: Usage | None = None


class Choice(msgspec.Struct, frozen=True):
    index: int = 0
    message: ChatMessage = ChatMessage()
    finish_reason: str | None = None


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """An answer that is not streamed."""

    id: str = ""
    object: str = "chat.completion"
    created: int = 0
    model: str = ""
    choices: tuple[Choice, ...] = ()
    usage: Usage | None = None


class Model(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    object: str = "model"
    created: int = 0
    owned_by: str = ""
    max_model_len: int | None = None
    """Tokens of a conversation, if the server says."""

    @property
    def continues(self) -> bool:
        """True if its server is known to continue an answer."""
        return self.owned_by in CONTINUING


class Models(msgspec.Struct, frozen=True, kw_only=True):
    """`GET /v1/models`."""

    object: Literal["list"]
    data: tuple[Model, ...]


# ---- errors ----------------------------------------------------------------------------------------------------------

_TYPES: dict[ErrorCode, str] = {"unauthorised": "authentication_error", "busy": "overloaded_error"}
_SERVER = ("unavailable", "internal")
_CODES: dict[ErrorCode, str] = {
    "too_long": "context_length_exceeded",
    "unauthorised": "invalid_api_key",
}


def error_body(error: Error) -> bytes:
    """Encode an error in this API's shape."""
    kind = _TYPES.get(error.code, "server_error" if error.code in _SERVER else "invalid_request_error")
    inner = {"message": error.message, "type": kind, "param": None, "code": _CODES.get(error.code, error.code)}
    return msgspec.json.encode({"error": inner})


def read_error(found: Any, *, bare: bool = False) -> tuple[str, str] | None:
    """The sentence of an error and its code, from any of these servers. None for what is not an error.

    `found`: JSON, decoded or not. `bare`: a `message` alone also counts, as gateways write it. Other shapes: OpenAI's,
    vLLM's older one (`message` at the top), a bare `error`, and the `detail` of web frameworks.
    """
    found = parse(found) if isinstance(found, bytes | str) else found
    if not isinstance(found, dict):
        return None
    inner = found.get("error") or (found if found.get("object") == "error" else found.get("detail"))
    if isinstance(inner, list):  # One complaint for each field that a framework refuses.
        inner = next((part for part in inner if isinstance(part, dict)), None)
    if isinstance(inner, dict):
        said = [str(code) for name in ("code", "type") if (code := text(inner.get(name)) or number(inner.get(name)))]
        sentence = text(inner.get("message")) or text(inner.get("msg"))
        return sentence or "it gave no reason", " ".join(said)[:MAX_CODE]
    sentence = text(inner) or (text(found.get("message")) if bare else "")
    return (sentence, "") if sentence else ("it gave no reason", "") if inner else None
