"""How the files of models are named, and what runs them. Imports nothing heavy, because the app needs it too."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

EngineKind = Literal["auto", "onnx", "llama", "torch"]
"""What runs a model. auto: what suits its files."""
GRAPHS = ("target.int8.onnx", "target.onnx")
"""Graphs in a model's folder, next to its weights. The first one that exists is taken. The second has float32
weights."""


def graph_in(model: str | Path) -> Path | None:
    """The graph in a model's folder; None if there is none, or `model` is a name on the hub."""
    return next((path for name in GRAPHS if (path := Path(model) / name).is_file()), None)


def is_gguf(model: str) -> bool:
    """Whether `model` is the path of a GGUF file, by its name."""
    return model.lower().endswith(".gguf")
