"""Names of models, as servers give them."""

from __future__ import annotations

import re

PATH = re.compile(r"(?:/|~[/\\]|\.\.?[/\\]|[A-Za-z]:[/\\]|\\\\).|.*\.gguf$", re.DOTALL | re.IGNORECASE)
"""Matches a name that is a path on the server's disk, unlike "owner/model"."""


def short_model(name: str) -> str:
    """A model's name for the screen: only the last part of a path on the server's disk ("/srv/models/qwen.gguf").

    Some servers (llama.cpp, `transformers serve`) name a model after its file.
    """
    if PATH.match(name) is None:
        return name
    return re.split(r"[/\\]", name.rstrip("/\\"))[-1] or name
