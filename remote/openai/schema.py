"""Chat completions in OpenAI's shape, which many servers and clients speak: JSON structs for both ends, and errors.

Unknown fields are ignored, because everybody adds some. `continue_final_message` and `add_generation_prompt` are vLLM's
names.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

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

FinishReason = Literal["stop", "length"]


class ImageUrl(msgspec.Struct, frozen=True):
    """The place of an image: an address, or all of it as a `data:` URL."""

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


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """Text that the answer will probably have. The server may take over what fits, and writes the rest."""

    type: Literal["content"] = "content"
    content: str | tuple[ContentPart, ...] = ""


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
    prediction: Prediction | None = None


class PredictionTokens(msgspec.Struct, frozen=True):
    """What a server made of a prediction, in its tokens. Both are charged for."""

    accepted_prediction_tokens: int = 0
    rejected_prediction_tokens: int = 0


class Usage(msgspec.Struct, frozen=True):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    completion_tokens_details: PredictionTokens | msgspec.UnsetType = msgspec.UNSET
    """Unset if the server says nothing of a prediction, or used none."""


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
    images: bool | None = None
    """It reads images; None: the server does not say."""

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
