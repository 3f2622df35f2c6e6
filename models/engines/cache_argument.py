"""The name by which a model of transformers takes its cache of keys and values: it changed with version 5.24."""

from __future__ import annotations

import inspect

from transformers import Cache, PreTrainedModel


def cache_argument(model: PreTrainedModel, cache: Cache) -> dict[str, Cache]:
    """The cache as an argument of `model`, of its base model and of its `generate`, under the name that they know."""
    known = inspect.signature(model.forward).parameters
    return {"cache" if "cache" in known else "past_key_values": cache}
