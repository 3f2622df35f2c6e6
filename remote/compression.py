"""Unpacks what a server, or a proxy on the way, has compressed, though it was asked not to."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

PACKINGS = ("gzip", "x-gzip", "deflate")
"""Values of `content-encoding` that can be unpacked."""
MAX_PIECE = 1 << 16
"""Most bytes that are unpacked at once: a few packed ones may hold gigabytes."""
ANY_HEADER, NO_HEADER = zlib.MAX_WBITS | 32, -zlib.MAX_WBITS
MAGIC = b"\x1f\x8b"
"""How a member of gzip begins."""


class Unpacker:
    """Unpacks one body, however its bytes are split."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(ANY_HEADER)
        self._begun = False

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """What `chunk` holds, in pieces of at most `MAX_PIECE` bytes. Raises `zlib.error`."""
        full = False
        while chunk or full:
            if self._stream.eof:
                if not MAGIC.startswith(chunk[:2]):
                    return  # Padding.
                self._stream = zlib.decompressobj(ANY_HEADER)
            piece = self._unpacked(chunk)
            full = len(piece) == MAX_PIECE
            if piece:
                yield piece
            chunk = self._stream.unconsumed_tail or self._stream.unused_data

    def _unpacked(self, chunk: bytes) -> bytes:
        begun, self._begun = self._begun, True
        try:
            return self._stream.decompress(chunk, MAX_PIECE)
        except zlib.error:
            if begun:
                raise
            self._stream = zlib.decompressobj(NO_HEADER)  # What some servers mean by `deflate`.
            return self._stream.decompress(chunk, MAX_PIECE)
