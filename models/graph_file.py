"""Reads the file of a graph (ONNX, in protobuf) as far as loading needs it. Numpy only.

The `onnx` package could do that, but is otherwise needed only to write graphs. A graph may leave weights out, which are
then given to ONNX Runtime: unpacked from the file next to it, or from tensors in its own file that no node uses.

ONNX Runtime multiplies unsigned inputs by signed weights in half the time that unsigned weights take. But x86 without
VNNI saturates the sum of two such products at 16 bits. There, the weights of graphs whose sums must be exact are made
unsigned when they are loaded: a weight w and its zero point 0 become w + 128 and 128, which in two's complement turns
one bit of each byte. That is another form of the same numbers, with the same exact sums.
"""

from __future__ import annotations

import mmap
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.files import PACKED
from models.packed import Weight, array_of, read_packed, weights_in

SIGNED = ".signed"
"""End of the names of signed 8-bit weights whose sums must be exact, and of their zero point."""
CPU = Path("/proc/cpuinfo")
FLOAT, UINT8, INT8 = 1, 2, 3
"""Kinds of numbers, as ONNX counts them."""
KINDS = {FLOAT: "<f4", UINT8: "u1", INT8: "i1"}
GRAPH, INITIALIZER, DIMS, KIND, NAME, RAW, PLACE = 7, 5, 1, 2, 8, 9, 13
"""Field numbers of ONNX's messages: of a model, of a graph, of a tensor."""
ONLY_STORED = (b".int4", b".factors", b".int8")
"""Endings of the tensors of packed matrices, besides scales."""
VARINT, EIGHT_BYTES, BYTES, FOUR_BYTES = 0, 1, 2, 5
Data = bytes | bytearray | mmap.mmap
Tensor = dict[int, list[tuple[int, int]]]
"""Where the contents of a tensor's fields begin and end, by the numbers of the fields."""


def adds_exactly() -> bool:
    """Whether this processor is known to add up products with signed weights exactly."""
    if platform.machine().lower() not in ("x86_64", "amd64", "i386", "i686"):
        return True
    return CPU.exists() and "vnni" in CPU.read_text(errors="replace")


def loadable(path: Path) -> tuple[Path | bytes, dict[str, NDArray[Any]]]:
    """A graph, and the weights that it leaves out, in the form that this processor sums exactly.

    Raises `ValueError` for a file that is not a model and for damaged weights, `OSError`.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        tensors, beside = stored(data), path.with_name(PACKED)
        names = [name for name, tensor in tensors.items() if _left_out(data, tensor)]
        if not names:
            own = any(name.endswith(SIGNED) for name in tensors) and not adds_exactly()
            return unsigned(data[:]) if own else path, {}
        weights = read_packed(beside) if beside.exists() else _weights(data, tensors)
        try:
            arrays = {name: array_of(weights, name) for name in names}
        except KeyError as error:
            raise ValueError(f"the weights of {path} lack {error.args[0]}") from None
        model = _structure(data)
        if adds_exactly():
            return model, arrays
        for name in names:
            if name.endswith(SIGNED):
                arrays[name] = arrays[name].view(np.uint8)
                arrays[name] ^= 0x80
        return unsigned(model), arrays


def weights_inside(path: Path) -> dict[str, Weight]:
    """The weights in a graph's own file, if it leaves matrices out; or else nothing. Raises `ValueError`, `OSError`."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        tensors = stored(data)
        return _weights(data, tensors) if any(_left_out(data, tensor) for tensor in tensors.values()) else {}


def unsigned(model: bytes) -> bytes:
    """The model with its signed weights made unsigned. Everything else stays in place.

    Raises `ValueError` for bytes that are not a model.
    """
    changed = bytearray(model)
    numbers = np.frombuffer(changed, np.uint8)
    for name, tensor in stored(model).items():
        if name.endswith(SIGNED):
            ((kind, _),) = tensor[KIND]
            if changed[kind] != INT8:
                raise ValueError(f"{name} is not of the kind int8")
            changed[kind] = UINT8
            for raw in tensor.get(RAW, ()):
                numbers[slice(*raw)] ^= 0x80
    return bytes(changed)


def stored(data: Data) -> dict[str, Tensor]:
    """The tensors of a model, by their names. Raises `ValueError` for bytes that are not a model."""
    found = dict[str, Tensor]()
    for graph in _fields(data, 0, len(data)).get(GRAPH, ()):
        for begin, end in _fields(data, *graph).get(INITIALIZER, ()):
            tensor = _fields(data, begin, end)
            ((first, last),) = tensor[NAME]
            found[data[first:last].decode()] = tensor
    return found


def _left_out(data: Data, tensor: Tensor) -> bool:
    """Weights of a very large graph are in another file, too, but ONNX Runtime finds that itself."""
    return any(PACKED.encode() in data[begin:end] for begin, end in tensor.get(PLACE, ()))


def _weights(data: Data, tensors: dict[str, Tensor]) -> dict[str, Weight]:
    arrays = dict[str, NDArray[Any]]()
    for name, tensor in tensors.items():
        ((kind, _),) = tensor[KIND]
        if data[kind] in KINDS and RAW in tensor:
            ((begin, end),) = tensor[RAW]
            dims = [_varint(data, at)[0] for at, _ in tensor.get(DIMS, ())]
            arrays[name] = np.frombuffer(data[begin:end], KINDS[data[kind]]).reshape(dims)
    return weights_in(arrays)


def _structure(data: Data) -> bytes:
    """The model without the tensors that are unpacked, which ONNX Runtime would read for nothing."""
    whole = list[bytes]()
    for number, start, begin, end in _each(data, 0, len(data)):
        if number != GRAPH:
            whole.append(bytes(data[start:end]))
            continue
        kept = list[bytes]()
        for part, first, inner, last in _each(data, begin, end):
            if part == INITIALIZER:
                ((name, name_end),) = _fields(data, inner, last)[NAME]
                if data[name:name_end].endswith(ONLY_STORED):
                    continue
            kept.append(bytes(data[first:last]))
        whole += [_encoded(GRAPH << 3 | BYTES), _encoded(sum(map(len, kept))), *kept]
    return b"".join(whole)


def _fields(data: Data, at: int, end: int) -> Tensor:
    """The fields of a message, by their numbers: where the contents of each begin and end."""
    found: Tensor = {}
    for number, _, begin, stop in _each(data, at, end):
        found.setdefault(number, []).append((begin, stop))
    return found


def _each(data: Data, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """The fields of a message: their numbers, where they begin, where their contents begin, and where both end."""
    while at < end:
        start = at
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
        yield number, start, at, stop
        at = stop


def _encoded(value: int) -> bytes:
    """A varint."""
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def _varint(data: Data, at: int) -> tuple[int, int]:
    """A varint, with seven bits per byte, and where the next field begins."""
    value = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        value, shift, at = value | (byte & 0x7F) << shift, shift + 7, at + 1
        if byte < 0x80:
            return value, at
    raise ValueError("this ONNX model is cut off")
