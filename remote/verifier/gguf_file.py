"""A GGUF file as a target: where its text side is, as files that other targets have in their folder.

Published GGUF files mostly stand alone. Then the text side is unpacked from the file, with transformers. Where
`tokenizer.json` and `config.json` lie beside the file, they are taken as they are: an unpacked tokenizer is a
translation, and may miss a rule that the file does not tell.
"""

from __future__ import annotations

import contextlib
import functools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from drafter.config import TOKENIZER
from drafter.extras import how_to_install
from remote.verifier.engines.graphs import is_gguf
from remote.verifier.start_errors import CorruptWeights, MissingPackage, MissingTokenizer, UnknownModel
from remote.verifier.text_side import CONFIG, GENERATION, licence_in

ENDS = ("tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id")
"""Entries that name a token which ends an answer."""


def gguf_path(model: str) -> Path:
    """The file. Raises `UnknownModel` if there is none."""
    path = Path(model).expanduser()
    if not path.is_file():
        raise UnknownModel(f"There is no file {model}. Fetch it first, and give its path.")
    return path


@contextlib.contextmanager
def text_source(model: str) -> Iterator[str]:
    """The folder or the name on the hub that the text side of `model` is read from.

    A folder for the text side of a GGUF file is there while the block runs. Raises `UnknownModel`, `CorruptWeights`,
    `MissingPackage`, `MissingTokenizer`.
    """
    if not is_gguf(model):
        yield model
        return
    path = gguf_path(model)
    if (path.parent / TOKENIZER).is_file() and (path.parent / CONFIG).is_file():
        yield str(path.parent)
        return
    with tempfile.TemporaryDirectory(prefix="outrider-") as scratch:
        folder = Path(scratch) / path.stem  # Its name is that of the target.
        folder.mkdir()
        _unpack(path, folder)
        yield str(folder)


def head_size(path: Path) -> int | None:
    """Numbers of a key, as the file says, which transformers does not read for every architecture; None: not said."""
    said = _entry(path, f"{_entry(path, 'general.architecture')}.attention.key_length")
    return None if said is None else int(said)


def gguf_licence(path: Path) -> str:
    """The licence that the card beside a file names, or the file; empty: none, or the `gguf` package is missing."""
    try:
        return licence_in(path.parent / "README.md") or str(_entry(path, "general.license") or "")[:60]
    except ImportError:
        return ""


def _entry(path: Path, name: str) -> Any:
    """An entry of the file; None if it has none of that name. Raises `ImportError`, and what `_fields` raises."""
    field = _fields(path).get(name)
    return None if field is None else field.contents()


@functools.lru_cache(maxsize=1)
def _fields(path: Path) -> dict[str, Any]:
    """All entries of a file. Reading those of a large vocabulary takes seconds, so they are read once.

    Raises `ImportError` without the `gguf` package, `CorruptWeights`.
    """
    from gguf import GGUFReader

    try:
        return dict(GGUFReader(path).fields)
    except (ValueError, OSError, IndexError, KeyError) as error:
        raise CorruptWeights(f"{path} is no GGUF file, or is damaged ({error}). Fetch it again.") from error


def _unpack(path: Path, folder: Path) -> None:
    """Write the text side of a GGUF file into a folder, as transformers writes it."""
    try:
        from transformers import AutoConfig, AutoTokenizer

        ends = [int(end) for name in ENDS if (end := _entry(path, name)) is not None]
    except ImportError as error:
        raise MissingPackage(
            f"The tokenizer of {path.name} has to be unpacked, and {error.name} is missing: "
            f"{how_to_install('server,gguf')}, or put its tokenizer.json and config.json beside it."
        ) from error
    try:
        config = AutoConfig.from_pretrained(path.parent, gguf_file=path.name, local_files_only=True)
    except Exception as error:  # A file of any architecture, which transformers may know or not.
        raise UnknownModel(f"transformers does not know the model in {path.name}: {error}") from error
    try:
        AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name, local_files_only=True).save_pretrained(folder)
    except Exception as error:
        raise MissingTokenizer(
            f"The tokenizer of {path.name} cannot be unpacked ({error}). "
            "Put its tokenizer.json and config.json beside it."
        ) from error
    config.save_pretrained(folder)
    if ends:
        (folder / GENERATION).write_bytes(msgspec.json.encode({"eos_token_id": sorted(set(ends))}))
