"""Memory: activations of the target, as both sides of the wire pack and unpack them.

The memory of one token is a pair of keys and values for each row of the format. Row 0 is the drafter's cross-attention.
The other rows are the target's last layers, if the drafter runs them. Numbers are int8 or int4 with a float16 scale per
token and head: 1.03 or 0.53 bytes each at a head size of 64, against 2 for float16. The two are distinguished by the
size of the data. Rounding lowers acceptance a little, never correctness. Numpy only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.config import Bits

LARGEST: dict[Bits, int] = {4: 7, 8: 127}
SMALLEST_SCALE = np.float16(2.0**-24)
LARGEST_SCALE = np.finfo(np.float16).max


class MalformedMemory(ValueError):
    """Bytes or arrays that are not memory of the expected format. The message says what is wrong."""


class MemoryRow(NamedTuple):
    """One row of the format for `n` consecutive tokens: quantised keys and values. int4 is held as int8 from -7 to
    7."""

    keys: NDArray[np.int8]
    """(n, heads, size)"""
    key_scales: NDArray[np.float16]
    """(n, heads)"""
    values: NDArray[np.int8]
    """(n, heads, size)"""
    value_scales: NDArray[np.float16]
    """(n, heads)"""


def quantise(numbers: NDArray[np.floating], bits: Bits = 8) -> tuple[NDArray[np.int8], NDArray[np.float16]]:
    """Quantise each (size,) vector symmetrically with its own scale: (..., size) -> ((..., size) int8, (...) float16).

    The error of a number is at most half a scale, for numbers up to 65504 times the largest integer of this many bits.
    Raises `MalformedMemory` if a number is not finite.
    """
    floats = np.asarray(numbers, np.float32)
    if not np.isfinite(floats).all():
        raise MalformedMemory("the target's activations hold infinities or NaN; load it in a wider floating-point type")
    exact = np.abs(floats).max(axis=-1, initial=0.0) / np.float32(LARGEST[bits])
    scales = np.clip(exact, SMALLEST_SCALE, LARGEST_SCALE).astype(np.float16)
    # A scale rounded down would clip the largest number.
    scales = np.where(scales < exact, np.nextafter(scales, LARGEST_SCALE), scales)
    rounded = np.rint(floats / scales.astype(np.float32)[..., None])
    return np.clip(rounded, -LARGEST[bits], LARGEST[bits]).astype(np.int8), scales


def dequantise(numbers: NDArray[np.int8], scales: NDArray[np.float16]) -> NDArray[np.float32]:
    """Undo `quantise`, up to rounding: (..., size) int8 and (...) float16 -> (..., size) float32."""
    return numbers.astype(np.float32) * scales.astype(np.float32)[..., None]


def quantise_row(keys: NDArray[np.floating], values: NDArray[np.floating], bits: Bits = 8) -> MemoryRow:
    """One row of memory, quantised from float keys and values, each (n, heads, size)."""
    return MemoryRow(*quantise(keys, bits), *quantise(values, bits))


def memory_bytes(count: int, layers: Sequence[tuple[int, int]], bits: Bits = 8) -> int:
    """The packed size of `count` tokens' memory, in bytes. `layers`: (heads, size) of each row."""
    return count * sum(2 * heads * (_packed_size(size, bits) + 2) for heads, size in layers)


def memory_bits(data: bytes, count: int, layers: Sequence[tuple[int, int]]) -> Bits:
    """Find out from its size how the memory of `count` tokens is packed.

    Raises `MalformedMemory` if no packing fits.
    """
    widths: tuple[Bits, Bits] = (8, 4)
    for bits in widths:
        if count >= 0 and len(data) == memory_bytes(count, layers, bits):
            return bits
    raise MalformedMemory(f"{len(data)} bytes of memory for {count} tokens do not fit the format {list(layers)}")


def pack_memory(
    rows: Sequence[MemoryRow | tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]], bits: Bits = 8
) -> bytes:
    """Pack rows, in the format's order, as little-endian raw bytes.

    With 4 bits, two numbers of a vector share a byte, the first in the lower half. If their count is odd, the upper
    half of the last byte is 0. If all sizes are 1, 4 bits save nothing, so 8 are used.
    """
    bits = 8 if all(row[0].shape[-1] == 1 for row in rows) else bits
    parts = []
    for row in rows:
        keys, key_scales, values, value_scales = row
        for numbers, scales in ((keys, key_scales), (values, value_scales)):
            packed = np.asarray(numbers, np.int8) if bits == 8 else _nibbles(np.asarray(numbers, np.int8))
            parts += [packed.tobytes(), np.asarray(scales, "<f2").tobytes()]
    return b"".join(parts)


def unpack_memory(data: bytes, count: int, layers: Sequence[tuple[int, int]]) -> list[MemoryRow]:
    """Undo `pack_memory`, for untrusted bytes. The arrays are read-only.

    Raises `MalformedMemory` for a wrong size, and for scales that are negative or not finite.
    """
    bits = memory_bits(data, count, layers)
    rows, offset = [], 0

    def take(heads: int, size: int) -> tuple[NDArray[np.int8], NDArray[np.float16]]:
        nonlocal offset
        width = _packed_size(size, bits)
        numbers = np.frombuffer(data, np.int8, count * heads * width, offset).reshape(count, heads, width)
        offset += numbers.nbytes
        numbers = numbers if bits == 8 else _integers(numbers, size)
        scales = np.frombuffer(data, "<f2", count * heads, offset).reshape(count, heads)
        offset += scales.nbytes
        if not (np.isfinite(scales).all() and (scales >= 0).all()):
            raise MalformedMemory("memory with a scale that is negative or not finite")
        return numbers, scales

    for heads, size in layers:
        rows.append(MemoryRow(*take(heads, size), *take(heads, size)))
    return rows


def _packed_size(size: int, bits: Bits) -> int:
    return size if bits == 8 else (size + 1) // 2


def _nibbles(numbers: NDArray[np.int8]) -> NDArray[np.int8]:
    """Pack numbers from -8 to 7, two in a byte: (..., size) -> (..., (size + 1) // 2)."""
    even = np.concatenate((numbers, np.zeros((*numbers.shape[:-1], numbers.shape[-1] % 2), np.int8)), axis=-1)
    return (even[..., ::2] & 0x0F) | (even[..., 1::2] << 4)


def _integers(packed: NDArray[np.int8], size: int) -> NDArray[np.int8]:
    """Undo `_nibbles`."""
    both = np.stack((packed << 4 >> 4, packed >> 4), axis=-1)
    return both.reshape(*packed.shape[:-1], -1)[..., :size]
