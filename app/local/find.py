"""Finds the models that other programs keep on this device: Ollama, LM Studio, llama.cpp and Hugging Face's hub.

Files are used where they are and never copied. Nothing is opened but the first bytes of a file and Ollama's manifests.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from os.path import realpath
from pathlib import Path

import msgspec

from models.files import begins_as_gguf
from models.gguf.file import PART, gguf_files, gguf_name

MODEL_LAYER = "application/vnd.ollama.image.model"
"""The type of the layer of an Ollama manifest that has the weights."""
DEFAULT_HOST, DEFAULT_OWNER = "registry.ollama.ai", "library"
"""Parts of a model's name that Ollama leaves out."""
NO_CHAT = ("mmproj", "embed", "rerank", "vocab")
"""Words in the names of files that hold no chat model."""


@dataclass(frozen=True)
class Found:
    """A file with a model."""

    name: str
    """The name that the program that keeps it uses."""
    path: Path
    size: int
    """Bytes of all files that the model is in."""
    program: str


class _Layer(msgspec.Struct):
    digest: str
    mediaType: str = ""


class _Manifest(msgspec.Struct):
    layers: list[_Layer] = []


def find(folders: list[Path], environment: Mapping[str, str] = os.environ, home: Path | None = None) -> list[Found]:
    """All models of these programs and in these folders, each once, by name."""
    home = Path.home() if home is None else home
    found: dict[str, Found] = {}
    places = [
        ollama(Path(environment.get("OLLAMA_MODELS") or home / ".ollama/models")),
        *(in_folder(place, "LM Studio") for place in _lm_studio(home)),
        in_folder(_hub(environment, home), "Hugging Face"),
        in_folder(Path(environment.get("LLAMA_CACHE") or _cache(environment, home) / "llama.cpp"), "llama.cpp"),
        *(in_folder(folder, str(folder)) for folder in folders),
    ]
    for place in places:
        with suppress(OSError):  # It cannot be read, or a file went while it was looked at.
            for one in place:
                found.setdefault(realpath(one.path), one)
    return sorted(found.values(), key=lambda one: one.name.lower())


def in_folder(folder: Path, program: str) -> Iterator[Found]:
    """The GGUF files in a folder and the folders below it. Of a model in several files, the first one."""
    for path in sorted(folder.rglob("*.gguf")) if folder.is_dir() else []:
        part = PART.fullmatch(path.name)
        if any(word in path.name.lower() for word in NO_CHAT) or (part and "-00001-of-" not in path.name):
            continue
        sizes = [_model_bytes(file) for file in gguf_files(path)]
        if None not in sizes:
            yield Found(gguf_name(path), path, sum(size or 0 for size in sizes), program)


def ollama(folder: Path) -> Iterator[Found]:
    """The models of Ollama, whose files are named by their digests."""
    manifests = folder / "manifests"
    for path in sorted(manifests.rglob("*")) if manifests.is_dir() else []:
        try:
            layers = msgspec.json.decode(path.read_bytes(), type=_Manifest).layers
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        blob = next((layer.digest for layer in layers if layer.mediaType == MODEL_LAYER), "")
        weights = folder / "blobs" / Path(blob.replace(":", "-")).name
        named = path.relative_to(manifests).parts
        if blob and len(named) > 1 and (size := _model_bytes(weights)) is not None:
            *owner, name, tag = named
            shown = "/".join(part for part in owner if part not in (DEFAULT_HOST, DEFAULT_OWNER))
            yield Found(f"{shown}/{name}:{tag}".lstrip("/"), weights, size, "Ollama")


def _model_bytes(path: Path) -> int | None:
    """The bytes of a GGUF file, or None if it is none, or cannot be read."""
    return path.stat().st_size if begins_as_gguf(path) else None


def _lm_studio(home: Path) -> list[Path]:
    try:
        moved = (home / ".lmstudio-home-pointer").read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        moved = ""
    return [Path(moved or home / ".lmstudio") / "models", home / ".cache/lm-studio/models"]


def _hub(environment: Mapping[str, str], home: Path) -> Path:
    given = environment.get("HF_HUB_CACHE") or environment.get("HUGGINGFACE_HUB_CACHE")
    return Path(given or Path(environment.get("HF_HOME") or _cache(environment, home) / "huggingface") / "hub")


def _cache(environment: Mapping[str, str], home: Path) -> Path:
    return Path(environment.get("XDG_CACHE_HOME") or home / ".cache")
