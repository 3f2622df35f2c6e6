"""Turns messages, frames and tokens into bytes and back, and token sequences into digests."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import AsyncIterator, Iterable, Sequence

import msgspec

from models.config import DIGEST_BYTES
from remote.protocol.fields import MAX_FRAME_BYTES, CutOff, ProtocolError, Struct, T
from remote.protocol.messages import KINDS, Frame


def pack_tokens(tokens: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(tokens)}i", *tokens)


def unpack_tokens(data: bytes) -> list[int]:
    """Decode int32 token ids. Raises `ProtocolError` for a ragged length or a negative id."""
    if len(data) % 4:
        raise ProtocolError(f"{len(data)} bytes are not a whole number of int32 tokens")
    tokens = struct.unpack(f"<{len(data) // 4}i", data)
    if (least := min(tokens, default=0)) < 0:
        raise ProtocolError(f"negative token id {least}")
    return list(tokens)


def encode(message: Struct) -> bytes:
    return msgspec.msgpack.encode(message)


def decode(data: bytes | memoryview, kind: type[T]) -> T:
    """Decode a message of type `kind`. Raises `ProtocolError` for anything else."""
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:  # Deep nesting ends in a RecursionError.
        raise ProtocolError(f"not a {kind.__name__}: {error}") from None


def encode_frame(frame: Frame) -> bytes:
    """Encode a frame with its length and its kind in front."""
    body = bytes([KINDS.index(type(frame))]) + encode(frame)
    return struct.pack("<I", len(body)) + body


def decode_frame(body: bytes) -> Frame:
    """Decode a frame without its length. Raises `ProtocolError`."""
    if not body or body[0] >= len(KINDS):
        raise ProtocolError("a frame of an unknown kind")
    return decode(memoryview(body)[1:], KINDS[body[0]])


async def read_frames(chunks: AsyncIterator[bytes], most: int = MAX_FRAME_BYTES) -> AsyncIterator[Frame]:
    """Read frames from a byte stream that arrives in pieces of any size, each as soon as its last byte is there.

    `most`: bytes of a frame. Raises `CutOff` if the stream ends inside a frame, and another `ProtocolError` for bytes
    that are not a frame.
    """
    buffer = bytearray()
    async for chunk in chunks:
        buffer += chunk
        while len(buffer) >= 4:
            (size,) = struct.unpack_from("<I", buffer)
            if size > most:
                raise ProtocolError(f"a frame of {size} bytes; at most {most} are read")
            if len(buffer) < 4 + size:
                break
            body = bytes(buffer[4 : 4 + size])
            del buffer[: 4 + size]
            yield decode_frame(body)
    if buffer:
        raise CutOff(f"the reply ended {len(buffer)} bytes into a frame")


class RunningDigest:
    """The digest of a growing token sequence, which can be read at each of its prefixes.

    By such digests both sides compare what they hold.
    """

    def __init__(self) -> None:
        self._digests = [hashlib.blake2b(digest_size=DIGEST_BYTES).digest()]

    def __len__(self) -> int:
        return len(self._digests) - 1

    def extend(self, tokens: Iterable[int]) -> None:
        for token in tokens:
            link = self._digests[-1] + struct.pack("<i", token)
            self._digests.append(hashlib.blake2b(link, digest_size=DIGEST_BYTES).digest())

    def truncate(self, length: int) -> None:
        del self._digests[length + 1 :]

    def at(self, length: int) -> bytes:
        """The digest of the first `length` tokens."""
        return self._digests[length]


def digest_of(tokens: Iterable[int]) -> bytes:
    """The digest of a whole sequence: that of `RunningDigest` after the last token."""
    running = RunningDigest()
    running.extend(tokens)
    return running.at(len(running))
