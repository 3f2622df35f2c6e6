"""Completions in OpenAI's shape, which many servers and clients speak: JSON structs for both ends, and errors.

Unknown fields are ignored, because everybody adds some. `continue_final_message` and `add_generation_prompt` are vLLM's
names.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from remote.protocol import Error, ErrorCode, Positive

OUR_PATHS = tuple(
    f"/v1/{name}" for name in ("card", "rounds", "streams", "proposals", "sessions", "drafters", "tokenizers")
)
"""The paths of Outrider's own protocol. The errors of all other paths have OpenAI's shape."""
EVENTS = "text/event-stream"
JSON = "application/json"
DONE = "[DONE]"
"""The data of a stream's last event."""
OWNER = "outrider"
GATEWAY_OWNER = "outrider-gateway"
"""The gateway cannot continue an answer: what it wrote may have been withdrawn since."""
CONTINUING = frozenset({OWNER, "vllm", "sglang"})
"""Servers, by the owner that they name for their models, that can continue an answer with `continue_final_message`."""

FinishReason = Literal["stop", "length", "tool_calls"]


class ImageUrl(msgspec.Struct, frozen=True):
    """An image: its address, or all of it as a `data:` URL."""

    url: str


class ContentPart(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part of a message. Parts of type `image_url` are sent to other servers; only text can be read here."""

    type: str
    text: str = ""
    image_url: ImageUrl | str | None = None


Content = str | tuple[ContentPart, ...]
"""The content of a message: text, or parts if there is an image."""


class CalledFunction(msgspec.Struct, frozen=True):
    """A tool and what it is called with: JSON as text, as the model wrote it."""

    name: str
    arguments: str


class ToolCall(msgspec.Struct, frozen=True):
    """A call that the model wants made. The program that offered the tool makes it, or not."""

    id: str
    type: str = "function"
    function: CalledFunction = CalledFunction("", "")


class ChatMessage(msgspec.Struct, frozen=True):
    role: str = "assistant"
    content: Content | None = None
    tool_calls: tuple[ToolCall, ...] | None | msgspec.UnsetType = msgspec.UNSET
    tool_call_id: str | None | msgspec.UnsetType = msgspec.UNSET
    """The call that a message of the role `tool` is the result of."""


TokenId = Annotated[int, Meta(ge=0, lt=1 << 31)]
Penalty = Annotated[float, Meta(ge=-2, le=2)]
Stop = Annotated[str, Meta(max_length=256)]
"""Bounded, because all text is compared with each of its beginnings."""


class StreamOptions(msgspec.Struct, frozen=True):
    include_usage: bool | None = None


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """Text that the answer will probably contain. The server may reuse what fits, and writes the rest."""

    type: Literal["content"] = "content"
    content: str | tuple[ContentPart, ...] = ""


class CompletionRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Fields that requests for chat and for plain text share. None stands for the server's default."""

    model: str | None = None
    max_tokens: Positive | None = None
    temperature: Annotated[float, Meta(ge=0, le=100)] | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    top_k: Annotated[int, Meta(ge=-1, lt=1 << 31)] | None = None
    """Not in OpenAI's own API. 0 or -1: off."""
    seed: Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)] | None = None
    stop: Stop | Annotated[tuple[Stop, ...], Meta(max_length=16)] | None = None
    n: Annotated[int, Meta(ge=1, le=16)] | None = None
    """Answers to the same prompt."""
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    logit_bias: dict[str, Annotated[float, Meta(ge=-100, le=100)]] | None = None
    """Token id, as text -> bias that is added to its logit."""
    presence_penalty: Penalty | None = None
    """Subtracted from the logit of each token that the answer already contains."""
    frequency_penalty: Penalty | None = None
    """Subtracted once for each occurrence of the token in the answer."""


class Function(msgspec.Struct, frozen=True, omit_defaults=True):
    """A function that the model may call. `parameters`: a JSON schema of its arguments."""

    name: Annotated[str, Meta(min_length=1, max_length=256)]
    description: str | None = None
    parameters: dict[str, Any] | None = None


class Tool(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool that the model may call; the program that offers it makes the call."""

    type: Literal["function"]
    function: Function


class ResponseFormat(msgspec.Struct, frozen=True, omit_defaults=True):
    """The required form of an answer: `text`, `json_object`, or `json_schema` with `{"schema": ...}`."""

    type: str
    json_schema: dict[str, Any] | None = None
    schema: Any = None
    """The schema in the form of llama.cpp's server and others, also for `json_object`. Not in OpenAI's own API."""


class ChatRequest(CompletionRequest, frozen=True, kw_only=True, omit_defaults=True):
    """`POST /v1/chat/completions`."""

    messages: Annotated[tuple[ChatMessage, ...], Meta(min_length=1)]
    max_completion_tokens: Positive | None = None
    """The newer name of `max_tokens`."""
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    """The last message is the assistant's, and its text is to be continued."""
    prediction: Prediction | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    """Number of the likeliest tokens to report at each position, with `logprobs`."""
    response_format: ResponseFormat | None = None
    tools: tuple[Tool, ...] | None = None
    tool_choice: str | dict[str, Any] | None = None
    """`none`, `auto`, `required`, or `{"type": "function", "function": {"name": ...}}`."""
    parallel_tool_calls: bool | None = None
    """Whether an answer may have more than one call."""


class TextRequest(CompletionRequest, frozen=True, kw_only=True, omit_defaults=True):
    """`POST /v1/completions`: text that is continued. A prompt is a text or token ids; there may be several."""

    prompt: str | tuple[str | TokenId | tuple[TokenId, ...], ...]
    logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    """Number of the likeliest tokens to report at each position, or None for no log-probabilities at all."""
    echo: bool | None = None
    """The answer begins with the prompt."""


class PredictionTokens(msgspec.Struct, frozen=True):
    """How many tokens of a prediction a server used and rejected. Both are charged for."""

    accepted_prediction_tokens: int = 0
    rejected_prediction_tokens: int = 0


class Usage(msgspec.Struct, frozen=True):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    completion_tokens_details: PredictionTokens | msgspec.UnsetType = msgspec.UNSET
    """Unset if the server reports nothing about a prediction, or used none."""


class TopLogprob(msgspec.Struct, frozen=True):
    """A candidate token at a position. `bytes`: its text in UTF-8."""

    token: str
    logprob: float
    bytes: tuple[int, ...] | None


class TokenLogprob(msgspec.Struct, frozen=True):
    """A token of an answer, with the likeliest candidates at its position."""

    token: str
    logprob: float
    bytes: tuple[int, ...] | None
    top_logprobs: tuple[TopLogprob, ...] = ()


class Logprobs(msgspec.Struct, frozen=True):
    content: tuple[TokenLogprob, ...] = ()


class TextLogprobs(msgspec.Struct, frozen=True):
    """Log-probabilities of plain text, token by token. `text_offset`: characters of the text before each token."""

    tokens: tuple[str, ...]
    token_logprobs: tuple[float, ...]
    top_logprobs: tuple[dict[str, float], ...]
    text_offset: tuple[int, ...]


class FunctionDelta(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str | None = None
    arguments: str | None = None


class ToolCallDelta(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an event adds to the call at `index`. The first one has its id and name, and the arguments are joined."""

    index: int
    id: str | None = None
    type: str | None = None
    function: FunctionDelta = FunctionDelta()


class Delta(msgspec.Struct, frozen=True, omit_defaults=True):
    role: str | None = None
    content: str | None = None
    tool_calls: tuple[ToolCallDelta, ...] = ()


class ChunkChoice(msgspec.Struct, frozen=True):
    index: int = 0
    delta: Delta = Delta()
    finish_reason: str | None = None
    logprobs: Logprobs | msgspec.UnsetType = msgspec.UNSET


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
    logprobs: Logprobs | msgspec.UnsetType = msgspec.UNSET


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """An answer that is not streamed."""

    id: str = ""
    object: str = "chat.completion"
    created: int = 0
    model: str = ""
    choices: tuple[Choice, ...] = ()
    usage: Usage | None = None


class TextChoice(msgspec.Struct, frozen=True):
    index: int = 0
    text: str = ""
    finish_reason: str | None = None
    logprobs: TextLogprobs | None = None


class TextCompletion(msgspec.Struct, frozen=True, kw_only=True):
    """An answer of plain text, or an event of its stream."""

    id: str = ""
    object: str = "text_completion"
    created: int = 0
    model: str = ""
    choices: tuple[TextChoice, ...] = ()
    usage: Usage | None = None


class Price(msgspec.Struct, frozen=True):
    """US dollars for a million tokens, as the server's list gives them."""

    prompt: float
    completion: float


class Model(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    object: str = "model"
    created: int = 0
    owned_by: str = ""
    max_model_len: int | None = None
    """Tokens of a conversation, or None if the server does not say."""
    images: bool | None = None
    """Whether it reads images, or None if the server does not say."""
    most_written: int | msgspec.UnsetType = msgspec.UNSET
    """Most tokens of an answer."""
    price: Price | msgspec.UnsetType = msgspec.UNSET
    continuing: bool | msgspec.UnsetType = msgspec.UNSET
    """Whether its API has a way to continue an answer."""

    @property
    def continues(self) -> bool:
        """True if its server is known to continue an answer."""
        return self.continuing is True or self.owned_by in CONTINUING


class UnlistedModel(Model, frozen=True, kw_only=True):
    """A model that its server does not list, requested all the same because the person named it."""


class Models(msgspec.Struct, frozen=True, kw_only=True):
    """`GET /v1/models`."""

    object: Literal["list"]
    data: tuple[Model, ...]


# ---- errors ----------------------------------------------------------------------------------------------------------

_TYPES: dict[ErrorCode, str] = {"unauthorised": "authentication_error", "busy": "rate_limit_error"}
_SERVER = ("unavailable", "internal")
_CODES: dict[ErrorCode, str] = {
    "too_long": "context_length_exceeded",
    "unauthorised": "invalid_api_key",
}


def speaks_openai(path: str) -> bool:
    """Whether the errors at a path have this API's shape.

    This includes paths where nothing is served: a program may have left `/v1` out of its address. A device that was
    given an address ending in `/v1` first asks for `/v1/v1/card`.
    """
    return not any(f"{own}/" in f"{path}/" for own in OUR_PATHS)


def error_body(error: Error, *, param: str | None = None, code: str | None = None) -> bytes:
    """Encode an error in this API's shape. `param`: the field that it is about. `code`: this API's, if it has one."""
    kind = _TYPES.get(error.code, "server_error" if error.code in _SERVER else "invalid_request_error")
    named = code or _CODES.get(error.code, error.code)
    return msgspec.json.encode({"error": {"message": error.message, "type": kind, "param": param, "code": named}})
