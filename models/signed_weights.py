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

import numpy as np

SIGNED = ".signed"
"""End of the names of such weights, and of their zero point."""
CPU = Path("/proc/cpuinfo")
INT8, UINT8 = 3, 2
"""Kinds of numbers, as ONNX counts them."""
GRAPH, INITIALIZER, KIND, NAME, RAW = 7, 5, 2, 8, 9
"""Field numbers of ONNX's messages: of a model, of a graph, of a tensor."""
VARINT, EIGHT_BYTES, BYTES, FOUR_BYTES = 0, 1, 2, 5


def adds_exactly() -> bool:
    """Whether this processor is known to add up products with signed weights exactly."""
    if platform.machine().lower() not in ("x86_64", "amd64", "i386", "i686"):
        return True
    return CPU.exists() and "vnni" in CPU.read_text(errors="replace")


def exact_here(path: Path) -> Path | bytes:
    """A graph in the form that this processor sums exactly: its file, or its bytes with unsigned weights.

    Raises `ValueError` for a file that is not a model, `OSError`.
    """
    if adds_exactly():
        return path
    model = path.read_bytes()
    changed = unsigned(model)
    return path if changed == model else changed  # Weights in a separate file are found by the path of the graph.


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
            (kind,), (raw,) = _parts(changed, tensor, KIND), _parts(changed, tensor, RAW)
            if changed[kind[0]] != INT8:
                raise ValueError(f"{changed[slice(*name)].decode()} is not of the kind int8")
            changed[kind[0]] = UINT8
            numbers[slice(*raw)] ^= 0x80
    return bytes(changed)


def _parts(data: bytearray, within: tuple[int, int], wanted: int) -> list[tuple[int, int]]:
    """The begin and end of the contents of each field with this number, in a message."""
    return [part for number, part in _fields(data, *within) if number == wanted]


def _fields(data: bytearray, at: int, end: int) -> Iterator[tuple[int, tuple[int, int]]]:
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


def _varint(data: bytearray, at: int) -> tuple[int, int]:
    """A varint, with seven bits per byte, and where the next field begins."""
    value = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        value, shift, at = value | (byte & 0x7F) << shift, shift + 7, at + 1
        if byte < 0x80:
            return value, at
    raise ValueError("this ONNX model is cut off")
