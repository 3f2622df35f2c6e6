"""What servers accept: the order of messages that suits them all, and the fields that only some know.

Facts from each service's own documentation. A server's own reply takes precedence: see `refused_field`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

import msgspec

from remote.openai.schema import GATEWAY_OWNER, OWNER, ChatRequest, Content, ContentPart

PREDICTING = ("api.openai.com", ".openai.azure.com", "api.mistral.ai", "api.fireworks.ai", "api.cerebras.ai")
"""Services that document `prediction`, for some of their models."""
IGNORING = (
    "api.anthropic.com",
    "api.deepseek.com",
    "api.groq.com",
    "api.together.xyz",
    "generativelanguage.googleapis.com",
)
"""Services whose documented fields lack `prediction`, or that say they ignore it."""
IGNORING_OWNERS = frozenset({OWNER, GATEWAY_OWNER, "vllm", "sglang", "llamacpp", "library", "organization_owner"})
"""Servers without that field, by the owner that they name for their models: our own, vLLM, SGLang, llama.cpp, Ollama
and LM Studio."""

OPTIONAL = ("prediction", "stream_options", "max_tokens", "temperature", "top_k", "top_p", "seed")
"""Fields of a request that a server may reject although it accepts the question itself."""
SAMPLING = ("temperature", "top_k", "top_p", "seed")
"""Those of them that change the answer."""
UNKNOWN = re.compile(
    r"unsupported|not (currently )?support|unrecogni[sz]ed|unknown|unexpected|extra_forbidden|extra (inputs?|fields?)"
    r"|additional properties|(not|n't) (permitted|allowed|accepted|available|compatible|valid with)|incompatible"
    r"|cannot be (used|combined)|cannot find field|no such field|(does not|doesn't) (support|accept|take)|deprecated",
    re.IGNORECASE,
)
"""How servers say that they do not accept a field, or not for this model. A value out of range is the person's own, so
that refusal is shown to them."""
SYSTEM = ("system", "developer")
OPENING = "Please begin."
"""The question that is put before a first answer without one, as in an imported conversation."""


def ordered(messages: Sequence[tuple[str, Content]]) -> list[tuple[str, Content]]:
    """A conversation in the form that every server takes: one system message first, then roles that alternate.

    All system messages are joined at the beginning, and neighbours of one role into one message. Chat templates of
    Gemma, Llama 2, Mistral and others refuse any other form, and so do Anthropic and Perplexity. Takes and returns
    (role, content) in order.
    """
    system = dict.fromkeys(content for role, content in messages if role in SYSTEM and content)
    spoken = [(role, content) for role, content in messages if role not in SYSTEM and (content or role == "user")]
    if not spoken or spoken[0][0] != "user":
        spoken.insert(0, ("user", OPENING))
    found: list[tuple[str, Content]] = []
    for role, content in [*(("system", content) for content in system), *spoken]:
        if found and found[-1][0] == role:
            content = _joined(found.pop()[1], content)
        found.append((role, content))
    return found


def _joined(first: Content, second: Content) -> Content:
    if not first or not second:
        return first or second
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}\n\n{second}"
    return _parts(first) + _parts(second)


def _parts(content: Content) -> tuple[ContentPart, ...]:
    return (ContentPart(type="text", text=content),) if isinstance(content, str) else content


def takes_prediction(url: str, owner: str) -> bool | None:
    """Whether a server accepts `prediction`, or None if that is unknown and may be tried.

    `url`: its base address. `owner`: who owns the model, in the server's words.
    """
    host = urlsplit(url).hostname or ""
    if _among(host, PREDICTING):
        return True
    return False if _among(host, IGNORING) or owner.lower() in IGNORING_OWNERS else None


def _among(host: str, names: tuple[str, ...]) -> bool:
    return any(host.endswith(name) if name.startswith(".") else host == name for name in names)


def refused_field(status: int, named: str, said: str, request: ChatRequest) -> str | None:
    """The optional field of a request that a refusal is about, or None if it is about something else.

    `named`: the field that the server names in a separate attribute; may be empty. `said`: its words and codes.
    """
    if status not in (400, 422) or not UNKNOWN.search(said):
        return None
    sent = [field for field in OPTIONAL if getattr(request, field) is not None]
    for field in sent:
        if named.split(".")[0] == field:
            return field
    # Otherwise the sentence mentions the field.
    return next((field for field in sent if re.search(rf"\b{field}\b", said)), None)


def without_field(request: ChatRequest, field: str) -> ChatRequest:
    """The request without an optional field. A limit stays, under the newer of its two names."""
    if field == "max_tokens":
        return msgspec.structs.replace(request, max_tokens=None, max_completion_tokens=request.max_tokens)
    return msgspec.structs.replace(request, **{field: None})
