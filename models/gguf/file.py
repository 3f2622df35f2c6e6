"""A GGUF file as a model: its parts, its name, and the facts in its header."""

from __future__ import annotations

import re
from pathlib import Path

from models.errors import UnknownModel
from models.files import graph_in
from models.gguf.header import read_header
from models.text.text_side import licence_in

PART = re.compile(r"(?P<name>.+)-\d{5}-of-(?P<count>\d{5})(?P<ending>\.gguf)", re.IGNORECASE)
"""llama.cpp's pattern for the name of one of a model's several files."""


def gguf_path(model: str) -> Path:
    """The file of a model, or the first of its files. Raises `UnknownModel` if one is not there."""
    path = Path(model).expanduser()
    files = gguf_files(path)
    missing = [file for file in files if not file.is_file()]
    if missing and not path.is_file():
        raise UnknownModel(f"There is no file {model}. Fetch it first, and give its path.")
    if missing:
        raise UnknownModel(
            f"This model is in {len(files)} files, and {missing[0].name} is not beside {path.name}. Fetch it too."
        )
    return files[0]


def gguf_files(path: Path) -> list[Path]:
    """All files of the model that `path` belongs to: a large model is split into several numbered files."""
    found = PART.fullmatch(path.name)
    if found is None or int(found["count"]) < 2:
        return [path]
    name, count = found["name"], int(found["count"])
    return [path.with_name(f"{name}-{number:05}-of-{count:05}{found['ending']}") for number in range(1, count + 1)]


def weights_of(model: Path) -> list[Path]:
    """The files with the weights of a model: all its GGUF files, or those in its folder that are read."""
    if not model.is_dir():
        return gguf_files(model)
    graph = graph_in(model)
    return sorted(model.glob("*.safetensors")) or ([] if graph is None else [graph])


def weight_bytes(model: Path) -> int | None:
    """Bytes of a model's weights, or None if there are none, or one of their files cannot be looked at."""
    try:
        return sum(file.stat().st_size for file in weights_of(model)) or None
    except (OSError, ValueError):
        return None


def gguf_name(path: Path) -> str:
    """The name of a model in one file or in several."""
    found = PART.fullmatch(path.name)
    return path.stem if found is None else found["name"]


def why_not_unpacked(path: Path) -> str | None:
    """Why PyTorch cannot read the model with the first file `path`, or None if it may."""
    if (count := len(gguf_files(path))) == 1:
        return None
    return (
        f"PyTorch reads a model from one GGUF file, and {gguf_name(path)} is in {count}. "
        f"Join them: llama-gguf-split --merge {path.name} {gguf_name(path)}.gguf."
    )


def gguf_architecture(path: Path) -> str:
    """The architecture of a file's model, as GGUF names it."""
    entry = "general.architecture"
    return read_header(path, (entry,)).text(entry) or ""


def head_size(path: Path) -> int | None:
    """Size of a key according to the file, which transformers does not read for every architecture, or None."""
    entry = f"{gguf_architecture(path)}.attention.key_length"
    return read_header(path, (entry,)).number(entry)


def gguf_licence(path: Path) -> str:
    """The licence named by the model card in the folder, or else by the file; may be empty."""
    entry = "general.license"
    return licence_in(path.parent / "README.md") or (read_header(path, (entry,)).text(entry) or "")[:60]
