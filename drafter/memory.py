"""Memory: the target's cached activations, as both sides of the wire write and read them.

One token's memory is a pair of keys and values for each row of the format. Row 0 is the drafter's cross-attention;
rows 1.. are the target's last layers where the drafter infers them. Each is int8 with a float16 scale per token and
head: 1.03 bytes a number at a head size of 64, against 2 for float16. Rounding lowers acceptance a little, never
correctness. Numpy only; knows nothing of models or HTTP.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

LARGEST = 127
SMALLEST_SCALE = np.float16(2.0**-24)
LARGEST_SCALE = np.finfo(np.float16).max


class MalformedMemory(ValueError):
    """Bytes or arrays that are no memory of the expected format; the message says what is wrong."""


class MemoryRow(NamedTuple):
    """One row of the format for `n` consecutive tokens: keys and values, quantised."""

    keys: NDArray[np.int8]
    """(n, heads, size)"""
    key_scales: NDArray[np.float16]
    """(n, heads)"""
    values: NDArray[np.int8]
    """(n, heads, size)"""
    value_scales: NDArray[np.float16]
    """(n, heads)"""


def quantise(numbers: NDArray[np.floating]) -> tuple[NDArray[np.int8], NDArray[np.float16]]:
    """Symmetric int8 of each (size,) vector with its own scale: (..., size) -> ((..., size) int8, (...) float16).

    The error of a number up to 127 * 65504 is at most half a scale. Raises `MalformedMemory` where one is not finite.
    """
    floats = np.asarray(numbers, np.float32)
    if not np.isfinite(floats).all():
        raise MalformedMemory("the target's activations hold infinities or NaN; load it in a wider floating-point type")
    exact = np.abs(floats).max(axis=-1, initial=0.0) / np.float32(LARGEST)
    scales = np.clip(exact, SMALLEST_SCALE, LARGEST_SCALE).astype(np.float16)
    # A scale rounded down would cut off the largest number.
    scales = np.where(scales < exact, np.nextafter(scales, LARGEST_SCALE), scales)
    rounded = np.rint(floats / scales.astype(np.float32)[..., None])
    return np.clip(rounded, -LARGEST, LARGEST).astype(np.int8), scales


def dequantise(numbers: NDArray[np.int8], scales: NDArray[np.float16]) -> NDArray[np.float32]:
    """The inverse, up to rounding: (..., size) int8 and (...) float16 -> (..., size) float32."""
    return numbers.astype(np.float32) * scales.astype(np.float32)[..., None]


def quantise_row(keys: NDArray[np.floating], values: NDArray[np.floating]) -> MemoryRow:
    """One row of memory from float keys and values, each (n, heads, size)."""
    return MemoryRow(*quantise(keys), *quantise(values))


def memory_bytes(count: int, layers: Sequence[tuple[int, int]]) -> int:
    """The packed size of `count` tokens' memory, in bytes. `layers`: (heads, size) of each row."""
    return count * sum(2 * heads * (size + 2) for heads, size in layers)


def pack_memory(rows: Sequence[MemoryRow | tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]) -> bytes:
    """Rows, in the format's order, as little-endian raw bytes."""
    parts = []
    for row in rows:
        keys, key_scales, values, value_scales = row
        for numbers, scales in ((keys, key_scales), (values, value_scales)):
            parts += [np.asarray(numbers, np.int8).tobytes(), np.asarray(scales, "<f2").tobytes()]
    return b"".join(parts)


def unpack_memory(data: bytes, count: int, layers: Sequence[tuple[int, int]]) -> list[MemoryRow]:
    """The inverse of `pack_memory`, for bytes that came from elsewhere. The arrays are read-only views of `data`.

    Raises `MalformedMemory` for a wrong size, or scales that are negative or not finite.
    """
    if count < 0 or len(data) != memory_bytes(count, layers):
        raise MalformedMemory(f"{len(data)} bytes of memory for {count} tokens do not fit the format {list(layers)}")
    rows, offset = [], 0

    def take(heads: int, size: int) -> tuple[NDArray[np.int8], NDArray[np.float16]]:
        nonlocal offset
        numbers = np.frombuffer(data, np.int8, count * heads * size, offset).reshape(count, heads, size)
        offset += numbers.nbytes
        scales = np.frombuffer(data, "<f2", count * heads, offset).reshape(count, heads)
        offset += scales.nbytes
        if not (np.isfinite(scales).all() and (scales >= 0).all()):
            raise MalformedMemory("memory with a scale that is negative or not finite")
        return numbers, scales

    for heads, size in layers:
        rows.append(MemoryRow(*take(heads, size), *take(heads, size)))
    return rows
