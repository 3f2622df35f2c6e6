"""Reads the header of a GGUF file: its entries, without its tensors.

A file may be damaged or malicious, so each length is checked against the rest of the file before anything is read, and
the size of a header is bounded. The layout is that of the GGUF specification, versions 2 and 3.
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from models.errors import CorruptWeights

Number = int | float | bool
Value = Number | str | list[str] | tuple[Number, ...]

T = TypeVar("T")
MAGIC = b"GGUF"
VERSIONS = (2, 3)
STRING, ARRAY = 8, 9
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""The code of each kind of number for `struct`."""
TENSORS = {
    0: (1, 4), 1: (1, 2), 24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8), 30: (1, 2),
    2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 40), 20: (32, 18), 39: (32, 17),
    10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292),
    16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50), 21: (256, 110), 22: (256, 82), 23: (256, 136),
    29: (256, 56), 34: (256, 54), 35: (256, 66),
}  # fmt: skip
"""The type of a tensor, and how many numbers are in how many bytes."""
ALIGNMENT = "general.alignment"
MOST_BYTES = 256 << 20
"""Most bytes of a header. One with 262,144 tokens has about 20 million."""
MOST_ENTRIES = MOST_TENSORS = 1 << 16
MOST_DIMENSIONS = 4
MOST_ITEMS = 1 << 22
"""Most items of an array."""
MOST_TEXT = 16 << 20
"""Most bytes of a string."""


@dataclass(frozen=True)
class Header:
    """The entries of a file, by name.

    Each method returns the entry of a name, or None if there is none. It raises `CorruptWeights` for an entry of
    another type.
    """

    path: Path
    entries: Mapping[str, Value]

    def text(self, name: str) -> str | None:
        return self._entry(name, str, "a text")

    def number(self, name: str) -> int | None:
        return self._entry(name, int, "a whole number")

    def flag(self, name: str) -> bool | None:
        return self._entry(name, bool, "true or false")

    def texts(self, name: str) -> list[str] | None:
        return self._entry(name, list, "a list of texts")

    def numbers(self, name: str) -> tuple[Number, ...] | None:
        return self._entry(name, tuple, "a list of numbers")

    def _entry(self, name: str, kind: type[T], what: str) -> T | None:
        found = self.entries.get(name)
        if found is None or type(found) is kind:
            return found
        raise damaged(self.path, f"its entry {name} is not {what}")


def damaged(path: Path, why: str) -> CorruptWeights:
    """The error for a malformed file."""
    return CorruptWeights(f"{path} is damaged: {why}. Fetch it again.")


def whole_size(path: Path) -> int:
    """Bytes of a file with all its tensors, at least. Raises `CorruptWeights`."""
    return _read(path, lambda reader: reader.whole_size())


def read_header(path: Path, only: Collection[str] | None = None) -> Header:
    """Read the entries of a file, or `only` those with these names, which is faster. Raises `CorruptWeights`."""
    return Header(path, _read(path, lambda reader: reader.entries(only)))


def _read(path: Path, read: Callable[[_Reader], T]) -> T:
    try:
        with path.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise CorruptWeights(f"{path} is not a GGUF file: it does not begin with GGUF. Fetch it again.")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return read(_Reader(path, data))
    except OSError as error:
        raise CorruptWeights(f"{path} cannot be read: {error.strerror}. Check its permissions.") from error


class _Reader:
    """Walks through a header from its beginning."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self._path, self._data = path, data
        self._end = min(len(data), MOST_BYTES)
        self._at = len(MAGIC)

    def whole_size(self) -> int:
        """Where the last tensor ends. Tensors of types that are not known here count as empty."""
        alignment = Header(self._path, self.entries((ALIGNMENT,))).number(ALIGNMENT) or 32
        ends = []
        for _ in range(self._tensors):
            self._text()
            if (dimensions := int(self._number("I"))) > MOST_DIMENSIONS:
                raise damaged(self._path, f"it has a tensor with {dimensions:,} dimensions")
            numbers = math.prod(int(self._number("Q")) for _ in range(dimensions))
            together, size = TENSORS.get(int(self._number("I")), (1, 0))
            ends.append(int(self._number("Q")) + numbers // together * size)
        return self._at + (-self._at % alignment + max(ends) if ends else 0)

    def entries(self, only: Collection[str] | None) -> dict[str, Value]:
        version = int(self._number("I"))
        if version & 0xFFFF == 0:
            raise CorruptWeights(f"{self._path} is in big-endian byte order. Fetch the little-endian file.")
        if version not in VERSIONS:
            raise CorruptWeights(
                f"{self._path} is a GGUF file of version {version}; versions 2 and 3 are supported. "
                "Fetch or convert it again."
            )
        self._tensors = self._count(MOST_TENSORS, 24, "tensors")
        count = self._count(MOST_ENTRIES, 13, "entries")  # A name's length, a type, and a byte.
        found: dict[str, Value] = {}
        for _ in range(count):
            name = self._text()
            kind = int(self._number("I"))
            if only is None or name in only:
                found[name] = self._value(kind)
            else:
                self._skip(kind)
        return found

    def _value(self, kind: int) -> Value:
        if kind == STRING:
            return self._text()
        if kind != ARRAY:
            return self._number(self._code(kind))
        kind = int(self._number("I"))
        if kind == STRING:
            return self._texts(self._count(MOST_ITEMS, 8, "texts"))
        code = self._code(kind)
        count = self._count(MOST_ITEMS, struct.calcsize(f"<{code}"), "numbers")
        return struct.unpack(f"<{count}{code}", self._bytes(struct.calcsize(f"<{count}{code}")))

    def _skip(self, kind: int) -> None:
        if kind != ARRAY:
            self._value(kind)
            return
        kind = int(self._number("I"))
        if kind != STRING:
            size = struct.calcsize(f"<{self._code(kind)}")
            self._bytes(self._count(MOST_ITEMS, size, "numbers") * size)
            return
        for _ in range(self._count(MOST_ITEMS, 8, "texts")):
            self._at += 8 + self._length(self._at)
        self._check()

    def _texts(self, count: int) -> list[str]:
        """The next `count` strings. A large vocabulary has 300,000, so this loop makes as few calls as possible."""
        data, at, end, length = self._data, self._at, self._end, struct.Struct("<Q").unpack_from
        found: list[bytes] = []
        for _ in range(count):
            if at + 8 > end:
                break
            start = at + 8
            at = start + length(data, at)[0]
            found.append(data[start : min(at, end)])
        self._at = at
        if len(found) < count:
            self._at = end + 1
        self._check()
        return [text.decode(errors="replace") for text in found]

    def _text(self) -> str:
        length = self._length(self._at)
        self._at += 8
        return self._bytes(length).decode(errors="replace")

    def _length(self, at: int) -> int:
        if at + 8 > self._end:
            raise self._cut_short()
        length: int = struct.unpack_from("<Q", self._data, at)[0]
        if length > MOST_TEXT:
            raise damaged(self._path, f"it has a text of {length:,} bytes in its header")
        return length

    def _number(self, code: str) -> Number:
        found: Number = struct.unpack(f"<{code}", self._bytes(struct.calcsize(f"<{code}")))[0]
        return found

    def _count(self, most: int, size: int, what: str) -> int:
        """How many items of at least `size` bytes follow."""
        count = int(self._number("Q"))
        if count > most:
            raise damaged(self._path, f"it has {count:,} {what} in its header")
        if self._at + count * size > self._end:
            raise self._cut_short()
        return count

    def _code(self, kind: int) -> str:
        if kind not in NUMBERS:
            raise damaged(self._path, f"it has an entry of an unknown type, {kind}")
        return NUMBERS[kind]

    def _bytes(self, count: int) -> bytes:
        start, self._at = self._at, self._at + count
        self._check()
        return self._data[start : self._at]

    def _check(self) -> None:
        if self._at > self._end:
            raise self._cut_short()

    def _cut_short(self) -> CorruptWeights:
        return damaged(self._path, "it ends within its header")
