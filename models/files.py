"""How the files of models are named, what runs them, and how a file is replaced.

Imports nothing heavy, because the app needs it too.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

EngineKind = Literal["auto", "onnx", "llama", "torch"]
"""The engine that runs a model. auto: the one that suits its files."""
TARGET_GRAPH = "target.onnx"
"""The graph in a model's folder, with its weights in float32, or next to packed ones."""
PACKED = "model.packed.safetensors"
"""Weights of a graph in 4 bits; see `models/packed.py`."""
MAGIC = b"GGUF"
"""The first bytes of a GGUF file."""


def graph_in(model: str | Path) -> Path | None:
    """The graph in a model's folder, or None if there is none or `model` is a name on the hub."""
    path = Path(model) / TARGET_GRAPH
    return None if file_bytes(path) is None else path


def graph_bytes(path: Path) -> int:
    """Bytes of a graph and of the weights that its own file leaves out."""
    return path.stat().st_size + (file_bytes(path.with_name(PACKED)) or 0)


def why_absent(path: Path) -> str | None:
    """Why nothing can be looked at in this place, after "it is", or None if something can.

    On Python 3.11 `Path.exists` and its like raise `OSError` for a closed folder, or a disk that is away.
    """
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return "missing"
    except OSError as error:
        return f"not readable ({error.strerror})"
    return None


def file_bytes(path: Path) -> int | None:
    """Bytes of a file, or None if none can be looked at in this place."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def is_gguf(model: str) -> bool:
    """Whether `model` is a GGUF file, by its name or its first bytes: Ollama names files by their digests."""
    return model.lower().endswith(".gguf") or begins_as_gguf(Path(model))


def begins_as_gguf(path: Path) -> bool:
    """Whether this is a file that can be read, with the first bytes of a GGUF file."""
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except (OSError, ValueError):  # A name on the hub, a folder, or no path at all.
        return False


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary file that replaces `path` at the end of the block, or is removed after an error."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    os.close(handle)
    part = Path(name)
    try:
        yield part
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
