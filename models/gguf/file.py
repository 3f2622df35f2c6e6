"""A GGUF file as a target: where its text side is, as files that other targets have in their folder.

Published GGUF files mostly stand alone. Then the text side is made of the file's header; transformers translates a
tokenizer of a kind that is not known here. Where `tokenizer.json` and `config.json` lie beside the file, they are taken
as they are: they are the model's own.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from models.config import TOKENIZER
from models.engines.graphs import is_gguf
from models.errors import MissingPackage, MissingTokenizer, UnknownModel
from models.extras import how_to_install
from models.gguf.header import read_header
from models.gguf.kept_text import keep_text, kept_text
from models.gguf.text import write_text_side
from models.gguf.tokenizer import Untranslatable, Vocabulary
from models.text.text_side import CONFIG, GENERATION, licence_in

PART = re.compile(r"(?P<name>.+)-\d{5}-of-(?P<count>\d{5})(?P<ending>\.gguf)", re.IGNORECASE)
"""The name of one of several files of a model, as llama.cpp writes it."""


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
    """All files of a model, of which `path` is one: a large one is split into several, which are numbered."""
    found = PART.fullmatch(path.name)
    if found is None or int(found["count"]) < 2:
        return [path]
    name, count = found["name"], int(found["count"])
    return [path.with_name(f"{name}-{number:05}-of-{count:05}{found['ending']}") for number in range(1, count + 1)]


def gguf_name(path: Path) -> str:
    """The name of a model that is in a file, or in several."""
    found = PART.fullmatch(path.name)
    return path.stem if found is None else found["name"]


def why_not_unpacked(path: Path) -> str | None:
    """Why PyTorch cannot read a model, the first of whose files is `path`; None: it may."""
    if (count := len(gguf_files(path))) == 1:
        return None
    return (
        f"PyTorch reads a model from one GGUF file, and {gguf_name(path)} is in {count}. "
        f"Join them: llama-gguf-split --merge {path.name} {gguf_name(path)}.gguf."
    )


@contextlib.contextmanager
def text_source(model: str, kept: Path | None = None) -> Iterator[str]:
    """The folder or the name on the hub that the text side of `model` is read from.

    A folder for the text side of a GGUF file is there while the block runs. `kept`: where those that were made are
    kept; None: it is made each time. Raises `UnknownModel`, `CorruptWeights`, `MissingPackage`, `MissingTokenizer`.
    """
    if not is_gguf(model):
        yield model
        return
    path = gguf_path(model)
    if has_own_text(path):
        yield str(path.parent)
    elif kept is not None and (folder := kept_text(path, kept)) is not None:
        yield str(folder)
    else:
        with _scratch(path) as folder:
            try:
                write_text_side(read_header(path), folder)
            except Untranslatable as unknown:
                translate(path, folder, str(unknown))
            if kept is not None:
                keep_text(path, folder, kept)
            yield str(folder)


def has_own_text(path: Path) -> bool:
    """Whether the model's own tokenizer lies beside a GGUF file."""
    return (path.parent / TOKENIZER).is_file() and (path.parent / CONFIG).is_file()


@contextlib.contextmanager
def translated(path: Path) -> Iterator[Path]:
    """The folder of a file's text side as transformers translates it. For what it raises, see `translate`."""
    with _scratch(path) as folder:
        translate(path, folder, f"The tokenizer of {path.name} is to be translated by transformers")
        yield folder


def gguf_architecture(path: Path) -> str:
    """The architecture of a file's model, as GGUF names it."""
    entry = "general.architecture"
    return read_header(path, (entry,)).text(entry) or ""


def head_size(path: Path) -> int | None:
    """Numbers of a key, as the file says, which transformers does not read for every architecture; None: not said."""
    entry = f"{gguf_architecture(path)}.attention.key_length"
    return read_header(path, (entry,)).number(entry)


def gguf_licence(path: Path) -> str:
    """The licence that the card beside a file names, or the file; empty: none."""
    entry = "general.license"
    return licence_in(path.parent / "README.md") or (read_header(path, (entry,)).text(entry) or "")[:60]


@contextlib.contextmanager
def _scratch(path: Path) -> Iterator[Path]:
    """A folder for a moment, which has the name of the target."""
    with tempfile.TemporaryDirectory(prefix="outrider-") as scratch:
        folder = Path(scratch) / path.stem
        folder.mkdir()
        yield folder


def translate(path: Path, folder: Path, why: str) -> None:
    """Write the text side of a GGUF file into a folder, as transformers translates it.

    `why`: a sentence without its full stop, which says what transformers is needed for. Raises `MissingPackage`,
    `UnknownModel`, `MissingTokenizer`, `CorruptWeights`.
    """
    try:
        ends = Vocabulary(read_header(path)).stop_tokens
    except Untranslatable as error:
        raise MissingTokenizer(f"{error}. Put its tokenizer.json and config.json beside it.") from error
    try:
        import gguf  # noqa: F401 # transformers needs it, and would say so in other words.
        from transformers import AutoConfig, AutoTokenizer
    except ImportError as error:
        raise MissingPackage(
            f"{why}, and {error.name} is missing: {how_to_install('server,gguf')}, "
            "or put its tokenizer.json and config.json beside it."
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
    (folder / GENERATION).write_bytes(msgspec.json.encode({"eos_token_id": ends}))
