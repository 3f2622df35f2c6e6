"""Every message between device and verifier, typed and versioned; the only module that knows bytes.

Bodies are msgpack of the structs below; numbers in bulk travel as little-endian raw bytes. A round's reply is a
stream of frames, each a 4-byte little-endian length followed by that many bytes of msgpack: one `Verdict` first, then
`Memory` frames, newest tokens first. Nothing here is ever pickled, and every size is checked before it is used.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import AsyncIterator, Iterable
from typing import Literal, TypeVar

import msgspec
import numpy as np

from drafter.tree import DraftTree, MalformedTree

T = TypeVar("T")

VERSION = 1
CONTENT_TYPE = "application/x-outrider-msgpack"
DIGEST_BYTES = 16
MAX_FRAME_BYTES = 64 << 20


class ProtocolError(ValueError):
    """A message that this version cannot read; the text says what is wrong with it."""


class Struct(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message part: immutable, fields by name, unknown fields ignored so that minor versions mix."""


class Limits(Struct):
    """What the verifier accepts; a client keeps within it."""

    max_nodes: int
    max_depth: int
    max_tokens: int
    """Committed tokens of one session, prompt included."""
    max_body_bytes: int


class MemoryFormat(Struct):
    """Shape of one token's memory: `layers` rows of keys and as many of values, each `heads * size` int8 values.

    Row 0 is the drafter's cross-attention; rows 1.. are the target's last N layers where the drafter has TLI.
    """

    digest: bytes
    """Of target, LSA and cross-attention projections: memory of another digest means nothing to a drafter."""
    layers: tuple[tuple[int, int], ...]
    """(heads, size) of each row."""


class Card(Struct):
    """`GET /v1/card`: who the verifier is and what it takes."""

    version: int
    target: str
    vocabulary: int
    tokenizer: bytes
    """Digest of the tokenizer file; a client with another one cannot talk to this target."""
    chat_template: str
    stop_tokens: tuple[int, ...]
    limits: Limits
    memory: MemoryFormat | None
    """None: this verifier has no memory encoder, so drafts go without memory."""


class Tree(Struct):
    """A draft tree: int32 tokens and int16 parents."""

    tokens: bytes
    parents: bytes

    @classmethod
    def pack(cls, tree: DraftTree) -> Tree:
        return cls(tokens=tree.tokens.astype("<i4").tobytes(), parents=tree.parents.astype("<i2").tobytes())

    def unpack(self, limits: Limits) -> DraftTree:
        """Raises `ProtocolError` for anything that is not a tree within the limits."""
        nodes = len(self.tokens) // 4
        if len(self.tokens) % 4 or len(self.parents) != 2 * nodes:
            raise ProtocolError(f"tree of {len(self.tokens)} token bytes and {len(self.parents)} parent bytes")
        if nodes > limits.max_nodes:
            raise ProtocolError(f"tree of {nodes} nodes; this verifier takes {limits.max_nodes}")
        try:
            tree = DraftTree(np.frombuffer(self.tokens, "<i4"), np.frombuffer(self.parents, "<i2"))
        except MalformedTree as error:
            raise ProtocolError(f"malformed tree: {error}") from None
        if nodes and int(tree.depths().max()) > limits.max_depth:
            raise ProtocolError(f"tree of depth {int(tree.depths().max())}; this verifier takes {limits.max_depth}")
        return tree


class Sampling(Struct):
    """How the target chooses tokens. Temperature 0 is greedy. Warped as transformers does: temperature, top-k, top-p."""

    temperature: float = 0.0
    top_k: int = 0
    """0: off."""
    top_p: float = 1.0
    seed: int = 0


class Round(Struct):
    """`POST /v1/rounds`: what the device adds to the committed tokens, and its guesses after them.

    The device knows `base` committed tokens, whose digest is `digest`. The verifier drops what it has beyond them,
    appends `append`, and verifies `tree` after the last of these tokens. A verifier that does not hold such a prefix
    answers 409 with a `Conflict`. `round` grows by one with each new round of a session; the same number again gets
    the same reply again.
    """

    session: str
    round: int
    base: int
    digest: bytes
    append: bytes
    """int32 token ids"""
    tree: Tree
    sampling: Sampling = Sampling()
    memory_from: int | None = None
    """Send memory of the tokens from this position on; None: send none."""


class Verdict(Struct):
    """The first frame of a round's reply."""

    round: int
    accepted: tuple[int, ...]
    """Node indices, from the root's child down."""
    bonus: int | None
    """The token after them; None only where the last accepted token is a stop token."""
    length: int
    """Committed tokens now, accepted ones and bonus included."""
    digest: bytes
    """Of these committed tokens."""
    finished: bool
    """The last committed token is a stop token, or the session is full."""
    server_seconds: float
    """From the request's last byte to this frame, waiting included."""


class Memory(Struct):
    """A later frame: cached activations of the committed tokens `start .. start + count`.

    Each row of the format is packed as int8 keys (count, heads, size), float16 key scales (count, heads), int8 values
    and float16 value scales of the same shapes.
    """

    digest: bytes
    start: int
    count: int
    data: bytes


class Conflict(Struct):
    """Body of a 409: prefixes that the verifier holds, longest first, as (length, digest); (0, ...) is always last."""

    have: tuple[tuple[int, bytes], ...]


ErrorCode = Literal[
    "bad_request", "unauthorised", "not_found", "too_large", "too_long", "out_of_order", "busy", "unavailable", "internal"
]


class Error(Struct):
    """Body of every other 4xx and 5xx."""

    code: ErrorCode
    message: str
    """One sentence for a person: what failed and what to do."""
    retry: bool
    """The same request may succeed later."""


Frame = Verdict | Memory


# ---- digests ---------------------------------------------------------------------------------------------------------


class RunningDigest:
    """A digest of a growing token sequence that can be read at each of its prefixes."""

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
    """The digest of a whole sequence, equal to `RunningDigest` after it."""
    running = RunningDigest()
    running.extend(tokens)
    return running.at(len(running))


# ---- bytes -----------------------------------------------------------------------------------------------------------


def pack_tokens(tokens: Iterable[int]) -> bytes:
    return np.fromiter(tokens, "<i4").tobytes()


def unpack_tokens(data: bytes) -> list[int]:
    """Raises `ProtocolError` for a ragged length or a negative id."""
    if len(data) % 4:
        raise ProtocolError(f"{len(data)} bytes are no whole number of int32 tokens")
    tokens = np.frombuffer(data, "<i4")
    if tokens.size and int(tokens.min()) < 0:
        raise ProtocolError(f"negative token id {int(tokens.min())}")
    return [int(token) for token in tokens]


def encode(message: Struct) -> bytes:
    return msgspec.msgpack.encode(message)


def decode(data: bytes, kind: type[T]) -> T:
    """Raises `ProtocolError` for anything that is not a `kind`."""
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
        raise ProtocolError(f"not a {kind.__name__}: {error}") from None


def encode_frame(frame: Frame) -> bytes:
    """A tagged frame with its length in front: tag 0 is a verdict, 1 is memory."""
    body = bytes([isinstance(frame, Memory)]) + encode(frame)
    return struct.pack("<I", len(body)) + body


def decode_frame(body: bytes) -> Frame:
    """The inverse, without the length. Raises `ProtocolError`."""
    if not body or body[0] > 1:
        raise ProtocolError("a frame of an unknown kind")
    return decode(body[1:], Memory if body[0] else Verdict)


async def read_frames(chunks: AsyncIterator[bytes]) -> AsyncIterator[Frame]:
    """Frames out of a byte stream cut anywhere. Raises `ProtocolError` where it ends inside a frame."""
    buffer = bytearray()
    async for chunk in chunks:
        buffer += chunk
        while len(buffer) >= 4:
            (size,) = struct.unpack_from("<I", buffer)
            if size > MAX_FRAME_BYTES:
                raise ProtocolError(f"a frame of {size} bytes; at most {MAX_FRAME_BYTES} are read")
            if len(buffer) < 4 + size:
                break
            body = bytes(buffer[4 : 4 + size])
            del buffer[: 4 + size]
            yield decode_frame(body)
    if buffer:
        raise ProtocolError(f"the reply ended {len(buffer)} bytes into a frame")
