"""8-bit weights in a graph whose sums must be exact, for processors that need unsigned weights for that.

ONNX Runtime multiplies unsigned inputs by signed weights in half the time that unsigned weights take. But x86 without
VNNI saturates the sum of two such products at 16 bits. There, weights are made unsigned when their graph is loaded:
another form of the same numbers, with the same exact sums. The `onnx` package could do that, but is otherwise needed
only to write graphs; here just the necessary parts of the file format (protobuf) are read. Numpy only.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.files import PACKED
from models.packed import array_of, read_packed

SIGNED = ".signed"
"""End of the names of such weights, and of their zero point."""
CPU = Path("/proc/cpuinfo")
INT8, UINT8 = 3, 2
"""Kinds of numbers, as ONNX counts them."""
GRAPH, INITIALIZER, KIND, NAME, RAW, PLACE = 7, 5, 2, 8, 9, 13
"""Field numbers of ONNX's messages: of a model, of a graph, of a tensor."""
VARINT, EIGHT_BYTES, BYTES, FOUR_BYTES = 0, 1, 2, 5


def adds_exactly() -> bool:
    """Whether this processor is known to add up products with signed weights exactly."""
    if platform.machine().lower() not in ("x86_64", "amd64", "i386", "i686"):
        return True
    return CPU.exists() and "vnni" in CPU.read_text(errors="replace")


def loadable(path: Path) -> tuple[Path | bytes, dict[str, NDArray[Any]]]:
    """A graph, and the weights that its file leaves out, in the form that this processor sums exactly.

    Raises `ValueError` for a file that is not a model and for damaged weights, `OSError`.
    """
    packed = path.with_name(PACKED)
    if not packed.exists():
        return path, {}
    model, stored = path.read_bytes(), read_packed(packed)
    try:
        weights = {name: array_of(stored, name) for name in left_out(model)}
    except KeyError as error:
        raise ValueError(f"{packed} lacks {error.args[0]}") from None
    if adds_exactly():
        return model, weights
    for name, numbers in weights.items():
        if name.endswith(SIGNED):
            numbers.view(np.uint8)[...] ^= 0x80
            weights[name] = numbers.view(np.uint8)
    return unsigned(model), weights


def left_out(model: bytes) -> list[str]:
    """The names of the weights that are in a file of their own. Raises `ValueError` for bytes that are not a model."""
    data, names = memoryview(model), list[str]()
    for graph in _parts(data, (0, len(data)), GRAPH):
        for tensor in _parts(data, graph, INITIALIZER):
            if _parts(data, tensor, PLACE):
                (name,) = _parts(data, tensor, NAME)
                names.append(bytes(data[slice(*name)]).decode())
    return names


def unsigned(model: bytes) -> bytes:
    """The model with its signed weights made unsigned. Everything else stays in place.

    A weight w and its zero point 0 become w + 128 and 128, which in two's complement turns one bit of each byte. Raises
    `ValueError` for bytes that are not a model.
    """
    changed = bytearray(model)
    numbers = np.frombuffer(changed, np.uint8)
    for graph in _parts(changed, (0, len(changed)), GRAPH):
        for tensor in _parts(changed, graph, INITIALIZER):
            (name,) = _parts(changed, tensor, NAME)
            if not changed[slice(*name)].endswith(SIGNED.encode()):
                continue
            (kind,) = _parts(changed, tensor, KIND)
            if changed[kind[0]] != INT8:
                raise ValueError(f"{changed[slice(*name)].decode()} is not of the kind int8")
            changed[kind[0]] = UINT8
            for raw in _parts(changed, tensor, RAW):
                numbers[slice(*raw)] ^= 0x80
    return bytes(changed)


def _parts(data: bytearray | memoryview, within: tuple[int, int], wanted: int) -> list[tuple[int, int]]:
    """The begin and end of the contents of each field with this number, in a message."""
    return [part for number, part in _fields(data, *within) if number == wanted]


def _fields(data: bytearray | memoryview, at: int, end: int) -> Iterator[tuple[int, tuple[int, int]]]:
    """The fields of a message: their numbers, and where their contents begin and end."""
    while at < end:
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == BYTES:
            length, at = _varint(data, at)
            stop = at + length
        elif wire == VARINT:
            stop = _varint(data, at)[1]
        elif wire in (EIGHT_BYTES, FOUR_BYTES):
            stop = at + (8 if wire == EIGHT_BYTES else 4)
        else:
            raise ValueError("this is not an ONNX model")
        if stop > end:
            raise ValueError("this ONNX model is cut off")
        yield number, (at, stop)
        at = stop


def _varint(data: bytearray | memoryview, at: int) -> tuple[int, int]:
    """A varint, with seven bits per byte, and where the next field begins."""
    value = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        value, shift, at = value | (byte & 0x7F) << shift, shift + 7, at + 1
        if byte < 0x80:
            return value, at
    raise ValueError("this ONNX model is cut off")
