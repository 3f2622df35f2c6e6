"""Reads the list of models of an OpenAI-compatible server, whatever its shape.

Servers agree on the name of a model and on little else. `created` may be a float, fields may be missing or `null`, the
list may be bare or have another name. What is not understood is skipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from remote.openai.lenient_json import number, parse, text
from remote.openai.schema import Model, Price, UnlistedModel

LATEST = ":latest"
"""The tag that Ollama adds to a name without one."""
NAMES = ("id", "name", "model")
WINDOWS = (
    "loaded_context_length", "max_model_len", "context_length", "context_window", "max_context_length",
    "max_input_tokens", "inputTokenLimit",
)  # fmt: skip
"""Fields that say how many tokens a conversation may have. The loaded limit takes precedence over the possible one."""
WRITTEN = ("max_completion_tokens", "max_tokens", "outputTokenLimit")
"""Fields that say how many tokens an answer may have."""
SEEING = ("image", "vision", "multimodal")
"""Words for reading images in a list of what a model can do."""
MAX_PRICE = 1e6
"""Dollars for a million tokens from which on a price is not believed."""
MAX_NAME = 512
"""Longest name of a model, in characters; no real one comes near."""


@dataclass(frozen=True)
class ModelList:
    models: tuple[Model, ...]
    loads_others: bool = False
    """The server also loads models that it does not list, on request."""


def read_model_list(body: Any) -> ModelList | None:
    """The models in an answer to `GET /models`, decoded or not. None if it is not a list of models."""
    found = parse(body) if isinstance(body, bytes | str) else body
    if isinstance(found, dict):
        found = next((found[key] for key in ("data", "models") if isinstance(found.get(key), list)), None)
    if not isinstance(found, list):
        return None
    entries = [entry if isinstance(entry, dict) else {"id": entry} for entry in found]
    models = {name: _model(name, entry) for entry in entries if (name := _name(entry)) and _chats(entry)}
    # Only `transformers serve` gives the time as a float. It lists its cache, and loads whatever it is asked for.
    loads_others = any(isinstance(entry.get("created"), float) for entry in entries)
    return ModelList(tuple(models.values()), loads_others)


def find_model(models: Sequence[Model], name: str | None) -> Model | None:
    """The model of that name, or the first one if `name` is None.

    A name may leave out `:latest`. Returns None if there is no such model.
    """
    if name is None:
        return models[0] if models else None
    for wanted in (name, name + LATEST):
        for model in models:
            if model.id == wanted:
                return model
    return None


def unlisted_model(models: Sequence[Model], name: str) -> UnlistedModel:
    """A model that a server lists under another name or not at all: the requested name, with the listed details if any.

    Google lists `models/…`. OpenRouter accepts a variant after a colon, which it does not list.
    """
    plain = _plain(name)
    for wanted in (plain, plain.partition(":")[0]):
        for model in models:
            if _plain(model.id) == wanted:
                return UnlistedModel(**{**msgspec.structs.asdict(model), "id": name})
    return UnlistedModel(id=name)


def _plain(name: str) -> str:
    return name.removeprefix("models/").casefold()


def _name(entry: dict[str, Any]) -> str:
    name = next((found for key in NAMES if (found := text(entry.get(key)))), "")
    return name if len(name) <= MAX_NAME else ""


def _model(name: str, entry: dict[str, Any]) -> Model:
    meta = entry.get("meta")  # llama.cpp's own field.
    places = [entry.get(key) for key in WINDOWS] + ([meta.get("n_ctx")] if isinstance(meta, dict) else [])
    window = next((size for place in places if (size := number(place)) > 0), None)
    written = next((size for key in WRITTEN if (size := number(entry.get(key))) > 0), msgspec.UNSET)
    return Model(
        id=name,
        owned_by=text(entry.get("owned_by")),
        max_model_len=window,
        images=_images(entry),
        most_written=written,
        price=_price(entry.get("pricing")),
    )


def _chats(entry: dict[str, Any]) -> bool:
    """False if a server says that a model writes no text, or is no longer served."""
    able, inner = entry.get("capabilities"), entry.get("architecture")
    if isinstance(able, dict) and able.get("completion_chat") is False:  # Mistral.
        return False
    if entry.get("type") == "embeddings" or entry.get("lifecycle") == "retired":  # LM Studio; Anthropic.
        return False
    if entry.get("active") is False:  # Groq.
        return False
    ways = entry.get("supportedGenerationMethods")  # Google.
    if isinstance(ways, list) and "generateContent" not in ways:
        return False
    writes = inner.get("output_modalities") if isinstance(inner, dict) else None  # OpenRouter.
    return not isinstance(writes, list) or not writes or "text" in writes


def _price(found: Any) -> Price | msgspec.UnsetType:
    """A price as OpenRouter gives it: dollars for one token, as text. A negative one depends on the question."""
    if not isinstance(found, dict):
        return msgspec.UNSET
    try:
        sums = [
            round(1e6 * float(found[part][:32]), 6) for part in ("prompt", "completion") if isinstance(found[part], str)
        ]
    except (KeyError, ValueError):
        return msgspec.UNSET
    return Price(*sums) if len(sums) == 2 and all(0 <= one < MAX_PRICE for one in sums) else msgspec.UNSET


def _images(entry: dict[str, Any]) -> bool | None:
    """Whether a model reads images, or None if its entry lists no capabilities."""
    if entry.get("type") == "vlm":  # LM Studio.
        return True
    able, inner = entry.get("capabilities"), entry.get("architecture")
    if isinstance(able, dict) and isinstance(able.get("vision"), bool):
        return bool(able["vision"])
    if isinstance(able, dict) and isinstance(sees := able.get("image_input"), dict):  # Anthropic.
        return sees.get("supported") is True
    places = [able, entry.get("input_modalities"), entry.get("modalities")]
    places += [inner.get("input_modalities")] if isinstance(inner, dict) else []
    told = [place for place in places if isinstance(place, list) and all(isinstance(part, str) for part in place)]
    return any(word in place for place in told for word in SEEING) if told else None
