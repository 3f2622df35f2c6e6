"""Reads weights in the safetensors format without PyTorch: numbers as float32, bytes as they are.

A file is the length of a JSON header (8 bytes, little-endian), the header, and the numbers of all tensors.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


class DamagedWeights(ValueError):
    """A file that is not in the safetensors format, or holds an unsupported type of numbers."""


def read_tensors(path: Path) -> dict[str, NDArray[Any]]:
    """All tensors of a file, or of all files of a folder. Raises `DamagedWeights`, `OSError`."""
    if path.is_dir():
        files = sorted(path.glob("*.safetensors"))
        return {name: tensor for file in files for name, tensor in read_tensors(file).items()}
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    try:
        header = json.loads(data[8 : 8 + length])
        return {
            name: _tensor(np.frombuffer(data, np.uint8), 8 + length, about)
            for name, about in header.items()
            if name != "__metadata__"
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedWeights(f"{path} is damaged: {error}") from None


def _tensor(data: NDArray[np.uint8], offset: int, about: dict[str, Any]) -> NDArray[Any]:
    begin, end = (offset + at for at in about["data_offsets"])
    if end > len(data):
        raise ValueError("it is cut short")
    part, shape = data[begin:end], tuple(about["shape"])
    match about["dtype"]:
        case "F32":
            return part.view("<f4").astype(np.float32).reshape(shape)
        case "F16":
            return part.view("<f2").astype(np.float32).reshape(shape)
        case "BF16":  # The upper half of a float32.
            return (part.view("<u2").astype(np.uint32) << 16).view(np.float32).reshape(shape)
        case "U8" | "I8" as kind:
            return part.view(np.uint8 if kind == "U8" else np.int8).reshape(shape)
        case other:
            raise ValueError(f"numbers of the kind {other}")
