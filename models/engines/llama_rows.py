"""Reads keys and values from llama.cpp's dump of a sequence (`llama_state_seq_get_data`).

Its layout is not guaranteed, so every known detail is checked, and anything else is refused. This is what
`llama_kv_cache::state_write` of llama.cpp writes, in the machine's byte order:

    uint32 magic, int32 sequence, uint32 streams (1), uint32 cells
    for each cell: int32 position, uint32 sequences (1), int32 sequence
    uint32 values are transposed, uint32 layers
    for each layer: int32 type (1: float16), uint64 bytes of a row, the keys of all cells
    for each layer: the same of the values; transposed: int32 type, uint32 bytes of a number, uint32 numbers of a row,
    and the numbers of all cells side by side
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.engines.engine import EngineError, Floats

FLOAT16 = 1
ROW_BYTES = 2
"""Bytes of a number in the cache."""


class UnreadableRows(EngineError):
    """llama.cpp's dump does not have the layout that this module knows."""


class _Reader:
    def __init__(self, state: bytes) -> None:
        self._state, self._at = state, 0

    def numbers(self, layout: str) -> tuple[int, ...]:
        size = struct.calcsize("=" + layout)
        return struct.unpack("=" + layout, self._bytes(size))

    def halves(self, count: int) -> NDArray[np.float16]:
        return np.frombuffer(self._bytes(count * ROW_BYTES), np.float16)

    def expect(self, layout: str, *values: int) -> None:
        found = self.numbers(layout)
        if found != values:
            raise UnreadableRows(f"the state of a sequence has {found} where {values} was expected")

    def end(self) -> None:
        if self._at != len(self._state):
            raise UnreadableRows(f"the state of a sequence has {len(self._state) - self._at} bytes too many")

    def _bytes(self, count: int) -> bytes:
        part = self._state[self._at : self._at + count]
        if len(part) < count:
            raise UnreadableRows("the state of a sequence is too short")
        self._at += count
        return part


@dataclass(frozen=True)
class CacheRows:
    """Keys, after rotary position embedding, and values of some positions, (positions, layers, heads, size) each."""

    keys: Floats
    values: Floats

    @classmethod
    def read(
        cls, state: bytes, positions: Sequence[int], shape: tuple[int, int, int], *, interleaved: bool
    ) -> CacheRows:
        """The rows of these positions, in their order.

        `shape`: layers, heads and size. `interleaved`: the file's keys were rotated in pairs of neighbours, where
        transformers rotates number i with number i + size / 2; they are returned in transformers' order. Raises
        `UnreadableRows`.
        """
        layers, heads, size = shape
        reader, width = _Reader(state), heads * size
        _, _, streams, cells = reader.numbers("Iiii")
        if (streams, cells) != (1, len(positions)):
            raise UnreadableRows(f"the state of a sequence has {streams} x {cells} cells, not {len(positions)}")
        places = []
        for _ in range(cells):
            place, count = reader.numbers("iI")
            reader.numbers("i" * min(count, 1))
            places.append(place)
        order = np.argsort(places)
        if sorted(places) != list(positions):
            raise UnreadableRows("the state of a sequence has other positions than were asked for")
        (transposed,) = reader.numbers("I")
        reader.expect("I", layers)
        written = [np.stack([_rows(reader, cells, width) for _ in range(layers)], axis=1)]
        read = _columns if transposed else _rows
        written.append(np.stack([read(reader, cells, width) for _ in range(layers)], axis=1))
        reader.end()
        keys, values = (part[order].reshape(cells, layers, heads, size).astype(np.float32) for part in written)
        if interleaved:
            keys = np.concatenate((keys[..., 0::2], keys[..., 1::2]), axis=-1)
        return cls(keys, values)


def _rows(reader: _Reader, cells: int, width: int) -> NDArray[np.float16]:
    reader.expect("iQ", FLOAT16, width * ROW_BYTES)
    return reader.halves(cells * width).reshape(cells, width)


def _columns(reader: _Reader, cells: int, width: int) -> NDArray[np.float16]:
    reader.expect("iII", FLOAT16, ROW_BYTES, width)
    return reader.halves(cells * width).reshape(width, cells).T
