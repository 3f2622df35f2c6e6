"""Why a model on this device cannot answer, and what to do: found from its files alone, whatever engine runs them."""

from __future__ import annotations

import struct
from pathlib import Path

import msgspec

from app.files import size_text
from models.config import TOKENIZER
from models.errors import BadTemplate, CorruptWeights, ModelError, UnknownModel
from models.files import is_gguf
from models.free_memory import total_bytes
from models.gguf.file import gguf_files, gguf_path, weights_of
from models.gguf.header import read_header, whole_size
from models.gguf.text import chat_template, has_own_text
from models.text.text_side import CONFIG, check_template, read_text_side

ANOTHER = "Choose another one: outrider local catalogue."
MOST_HEADER = 100 << 20
"""Most bytes of the header of safetensors, as in their own library."""


class _Tensor(msgspec.Struct):
    data_offsets: tuple[int, int] = (0, 0)


def check(path: Path) -> None:
    """Check the model in a folder or a GGUF file. Raises `ModelError`."""
    try:
        template, size = _folder(path) if path.is_dir() else _gguf(path)
    except OSError as error:
        raise ModelError(f"{error.filename or path} cannot be read: {error.strerror}.") from None
    check_memory(path.name, size)
    if not template:
        raise BadTemplate(
            f"{path.name} has no chat template: it is a base model, which continues text and does not answer. "
            "Choose its instruct version."
        )
    check_template(template, f"The chat template of {path.name}", ANOTHER)


def check_memory(name: str, size: int) -> None:
    """Check whether weights of this many bytes fit this device. Raises `UnknownModel`."""
    if (total := total_bytes()) is not None and size > total:
        raise UnknownModel(
            f"{name} takes {size_text(size)} of memory, and this device has {size_text(total)}. "
            "Choose a smaller one: outrider local catalogue."
        )


def _gguf(path: Path) -> tuple[str, int]:
    """The chat template of a GGUF file, and the bytes of all its files. Raises `ModelError`, `OSError`."""
    if not is_gguf(str(path)):
        raise UnknownModel(f"{path} is not a model. Give a GGUF file, or a folder with {CONFIG} and safetensors.")
    first = gguf_path(str(path))
    header = read_header(first)
    for file in gguf_files(first):
        _check_whole(file, whole_size(file))
    if (kind := header.text("general.type") or "model") != "model":
        raise UnknownModel(f"{path.name} is only a part of a model ({kind}). Give the model itself.")
    template = read_text_side(first.parent).chat_template if has_own_text(first) else chat_template(header)
    return template, sum(file.stat().st_size for file in gguf_files(first))


def _folder(path: Path) -> tuple[str, int]:
    """The chat template of a folder, and the bytes of its weights. Raises `ModelError`, `OSError`."""
    weights = weights_of(path)
    if not weights and (inside := sorted(path.glob("*.gguf"))):
        raise UnknownModel(f"{path} is a folder. Name a file in it, such as {inside[0]}.")
    if not weights or not (path / CONFIG).is_file():
        raise UnknownModel(
            f"{path} has no model: it needs {CONFIG}, {TOKENIZER} and weights in model.safetensors. "
            "Weights in other formats may contain code, and are not read."
        )
    for file in weights:
        if file.suffix == ".safetensors":
            _check_whole(file, _safetensors_size(file))
    return read_text_side(path).chat_template, sum(file.stat().st_size for file in weights)


def _safetensors_size(path: Path) -> int:
    """Bytes that the file has with all its tensors, by its header."""
    with path.open("rb") as file:
        try:
            (length,) = struct.unpack("<Q", file.read(8))
            tensors = msgspec.json.decode(file.read(min(length, MOST_HEADER)), type=dict[str, _Tensor])
        except (struct.error, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise CorruptWeights(f"{path} is damaged: its header cannot be read. Fetch it again.") from None
    return int(8 + length + max((tensor.data_offsets[1] for tensor in tensors.values()), default=0))


def _check_whole(path: Path, whole: int) -> None:
    if (size := path.stat().st_size) < whole:
        raise CorruptWeights(f"{path} is cut short: it has {size:,} of {whole:,} bytes. Fetch it again.")
