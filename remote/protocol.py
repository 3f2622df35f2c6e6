"""Every message between device and verifier, typed and versioned; the only module that knows bytes.

Bodies are msgpack of the structs below; numbers in bulk travel as little-endian raw bytes. A reply is a stream of
frames, each a 4-byte little-endian length, a byte for the kind, and msgpack. A round's has one `Verdict` first, then
`Memory`, newest tokens first; a stream's has a `Progress` for each of the verifier's own rounds, and the memory of what
it verified after each. Nothing here is ever pickled, and every size is checked before it is used.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import AsyncIterator, Iterable
from typing import Annotated, Literal, TypeVar

import msgspec
import numpy as np
from msgspec import Meta

from drafter.tree import Candidates, DraftTree, MalformedTree

VERSION = 1
CONTENT_TYPE = "application/x-outrider-msgpack"
DIGEST_BYTES = 16
MAX_FRAME_BYTES = 64 << 20
MAX_NODES = 1 << 15
"""Of a tree on the wire, whose parents are int16."""
MAX_CANDIDATES = 256
"""From which the children of one node were drawn."""

Count = Annotated[int, Meta(ge=0, lt=1 << 31)]
Positive = Annotated[int, Meta(ge=1, lt=1 << 31)]
Token = Annotated[int, Meta(ge=0, lt=1 << 31)]
Digest = Annotated[bytes, Meta(min_length=DIGEST_BYTES, max_length=DIGEST_BYTES)]
SessionId = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,64}\Z")]
"""Chosen by the device, at random: who knows it may continue the session."""


class ProtocolError(ValueError):
    """A message that this version cannot read; the text says what is wrong with it."""


class CutOff(ProtocolError):
    """A stream that ended inside a frame: the line broke, and the same request may be sent again."""


class Struct(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message part: immutable, fields by name, unknown fields ignored so that minor versions mix.

    The bounds in the fields' types are checked where a message is decoded.
    """


T = TypeVar("T", bound=Struct)


class Limits(Struct, frozen=True):
    """What the verifier accepts; a client keeps within it."""

    max_nodes: Positive
    max_depth: Positive
    max_tokens: Positive
    """Committed tokens of one session, prompt included."""
    max_body_bytes: Positive


class MemoryFormat(Struct, frozen=True):
    """Shape of one token's memory: `layers` rows of keys and as many of values, each `heads * size` numbers.

    Row 0 is the drafter's cross-attention; rows 1.. are the target's last N layers where the drafter has TLI.
    """

    digest: Digest
    """Of target, LSA and cross-attention projections: memory of another digest means nothing to a drafter."""
    layers: tuple[tuple[Positive, Positive], ...]
    """(heads, size) of each row."""


class Card(Struct, frozen=True):
    """`GET /v1/card`: who the verifier is and what it takes."""

    version: int
    target: str
    vocabulary: Positive
    tokenizer: Digest
    """Digest of the tokenizer file; a client with another one cannot talk to this target."""
    chat_template: str
    stop_tokens: tuple[Token, ...]
    limits: Limits
    memory: MemoryFormat | None
    """None: this verifier has no memory encoder, so drafts go without memory."""
    drafts: bool = False
    """In streams the verifier drafts by itself; if not, each of their rounds yields one token."""


class Tree(Struct, frozen=True):
    """A draft tree: int32 tokens and int16 parents; of a sampled one also what its children were drawn from.

    `counts` has a uint16 for the root and each node that has children, by rising index: how many candidates its list
    has. `candidates` (int32 tokens) and `weights` (uint16, from 1 on) hold these lists one after the other. A
    verifier that does not know these fields takes the tree for a deterministic one, and its output is as exact.
    """

    tokens: bytes
    parents: bytes
    counts: bytes = b""
    candidates: bytes = b""
    weights: bytes = b""

    @classmethod
    def pack(cls, tree: DraftTree) -> Tree:
        """Raises `ProtocolError` for a tree whose parents or lists would not fit."""
        if len(tree) > MAX_NODES:
            raise ProtocolError(f"tree of {len(tree)} nodes; at most {MAX_NODES} can be sent")
        tokens, parents = tree.tokens.astype("<i4").tobytes(), tree.parents.astype("<i2").tobytes()
        if not tree.candidates:
            return cls(tokens=tokens, parents=parents)
        lists = [candidates for _, candidates in sorted(tree.candidates.items())]
        if max(map(len, lists)) > MAX_CANDIDATES:
            raise ProtocolError(f"a list of {max(map(len, lists))} candidates; at most {MAX_CANDIDATES} can be sent")
        return cls(
            tokens=tokens,
            parents=parents,
            counts=np.array([len(one) for one in lists], "<u2").tobytes(),
            candidates=np.concatenate([one.tokens for one in lists]).astype("<i4").tobytes(),
            weights=np.concatenate([one.weights for one in lists]).astype("<u2").tobytes(),
        )

    def unpack(self, limits: Limits) -> DraftTree:
        """Raises `ProtocolError` for anything that is not a tree within the limits."""
        nodes = len(self.tokens) // 4
        if len(self.tokens) % 4 or len(self.parents) != 2 * nodes:
            raise ProtocolError(f"tree of {len(self.tokens)} token bytes and {len(self.parents)} parent bytes")
        if nodes > limits.max_nodes:
            raise ProtocolError(f"tree of {nodes} nodes; this verifier takes {limits.max_nodes}")
        tokens, parents = np.frombuffer(self.tokens, "<i4"), np.frombuffer(self.parents, "<i2")
        try:
            tree = DraftTree(tokens, parents, candidates=self._candidates(parents))
        except MalformedTree as error:
            raise ProtocolError(f"malformed tree: {error}") from None
        if nodes and int(tree.depths().max()) > limits.max_depth:
            raise ProtocolError(f"tree of depth {int(tree.depths().max())}; this verifier takes {limits.max_depth}")
        return tree

    def _candidates(self, parents: np.ndarray) -> dict[int, Candidates] | None:
        """The lists, by the node whose children they are of. Raises `ProtocolError`, `MalformedTree`."""
        if not (self.counts or self.candidates or self.weights):
            return None
        listed = np.unique(parents).tolist()
        if len(self.counts) != 2 * len(listed):
            raise ProtocolError(f"{len(self.counts)} bytes of counts; {len(listed)} nodes of the tree have children")
        counts = np.frombuffer(self.counts, "<u2").astype(int)
        if listed and int(counts.max()) > MAX_CANDIDATES:
            raise ProtocolError(f"a list of {int(counts.max())} candidates; at most {MAX_CANDIDATES} are read")
        total = int(counts.sum())
        if len(self.candidates) != 4 * total or len(self.weights) != 2 * total:
            found = f"{len(self.candidates)} bytes of candidates and {len(self.weights)} of weights"
            raise ProtocolError(f"{total} candidates are announced, but {found} came")
        ends = np.cumsum(counts)[:-1]
        tokens = np.split(np.frombuffer(self.candidates, "<i4"), ends)
        weights = np.split(np.frombuffer(self.weights, "<u2"), ends)
        return {parent: Candidates(*one) for parent, *one in zip(listed, tokens, weights)}


class Sampling(Struct, frozen=True):
    """How the target chooses tokens: warped as transformers does, temperature, then top-k, then top-p."""

    temperature: Annotated[float, Meta(ge=0, le=100)] = 0.0
    """0: greedy."""
    top_k: Count = 0
    """0: off."""
    top_p: Annotated[float, Meta(gt=0, le=1)] = 1.0
    seed: Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)] = 0


class Round(Struct, frozen=True):
    """`POST /v1/rounds`: what the device adds to the committed tokens, and its guesses after them.

    The device knows `base` committed tokens, whose digest is `digest`. The verifier drops what it has beyond them,
    appends `append`, and verifies `tree` after the last of these tokens. A verifier that does not hold such a prefix
    answers 409 with a `Conflict`, changes nothing, and takes the round again with another base under the same number.
    `round` grows with each new round of a session, and may skip numbers whose round never arrived. The last number
    again gets the same reply again; a lower one is out of order.
    """

    session: SessionId
    round: Count
    base: Count
    digest: Digest
    append: bytes
    """int32 token ids"""
    tree: Tree
    sampling: Sampling = Sampling()
    memory_from: Count | None = None
    """Send memory of the tokens from this position on; None: send none."""


class Verdict(Struct, frozen=True):
    """The first frame of a round's reply."""

    round: Count
    accepted: tuple[Count, ...]
    """Node indices, from the root's child down."""
    bonus: Token | None
    """The token after them; None only where the last accepted token is a stop token, or the session is full."""
    length: Count
    """Committed tokens now, accepted ones and bonus included."""
    digest: Digest
    """Of these committed tokens."""
    finished: bool
    """The last committed token is a stop token, or the session is full."""
    server_seconds: Annotated[float, Meta(ge=0, le=86_400)]
    """From the request's last byte to this frame, waiting included; of a repeated reply, from the repeated request."""


class Memory(Struct, frozen=True):
    """A later frame: cached activations of the committed tokens `start .. start + count`.

    Each row of the format is packed as keys (count, heads, size), float16 key scales (count, heads), values and float16
    value scales of the same shapes. Keys and values are int8, or int4: `drafter.memory`, whose size then tells.
    """

    digest: Digest
    """Of the `MemoryFormat`."""
    start: Count
    count: Positive
    data: bytes


class Stream(Struct, frozen=True):
    """`POST /v1/streams`: hosted mode. The verifier drafts by itself, and sends what it has verified, round by round.

    `session` to `append`, `sampling` and `memory_from` are those of a `Round`; rounds and streams of a session share
    their numbers, and a stream's is higher than any before. A device that breaks off goes on with a round or another
    stream from what it has: the tokens are the same, whoever drafts.
    """

    session: SessionId
    round: Count
    base: Count
    digest: Digest
    append: bytes
    """int32 token ids"""
    most: Positive
    """New tokens after which the stream ends, if no stop token came before."""
    draft: bool = True
    """False: a token a round, as without a drafter."""
    sampling: Sampling = Sampling()
    memory_from: Count | None = None


class Progress(Struct, frozen=True):
    """A frame of a stream: what one of the verifier's own rounds gave."""

    tokens: bytes
    """int32 token ids, at least one"""
    drafted: Count
    """How many of them it had guessed."""
    length: Count
    """Committed tokens now."""
    digest: Digest
    """Of these committed tokens."""
    finished: bool
    """The last committed token is a stop token, or the session is full."""
    server_seconds: Annotated[float, Meta(ge=0, le=86_400)]
    """Of drafting and verifying, without waiting for other sessions; of the first one from the request's last byte on,
    waiting included."""


class Conflict(Struct, frozen=True):
    """Body of a 409: prefixes that the verifier holds, longest first, as (length, digest); (0, ...) is always last."""

    have: tuple[tuple[Count, Digest], ...]


ErrorCode = Literal[
    "bad_request",
    "unauthorised",
    "not_found",
    "too_large",
    "too_long",
    "out_of_order",
    "busy",
    "unavailable",
    "internal",
]


class Error(Struct, frozen=True):
    """Body of every other 4xx and 5xx."""

    code: ErrorCode
    message: str
    """One sentence for a person: what failed and what to do."""
    retry: bool
    """The same request may succeed later."""


Frame = Verdict | Memory | Progress
KINDS: tuple[type[Frame], ...] = (Verdict, Memory, Progress)
"""By the byte in front of a frame."""


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


def decode(data: bytes | memoryview, kind: type[T]) -> T:
    """Raises `ProtocolError` for anything that is not a `kind`."""
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:  # Deep nesting ends in the last one.
        raise ProtocolError(f"not a {kind.__name__}: {error}") from None


def encode_frame(frame: Frame) -> bytes:
    """A tagged frame with its length in front."""
    body = bytes([KINDS.index(type(frame))]) + encode(frame)
    return struct.pack("<I", len(body)) + body


def decode_frame(body: bytes) -> Frame:
    """The inverse, without the length. Raises `ProtocolError`."""
    if not body or body[0] >= len(KINDS):
        raise ProtocolError("a frame of an unknown kind")
    return decode(memoryview(body)[1:], KINDS[body[0]])


async def read_frames(chunks: AsyncIterator[bytes], most: int = MAX_FRAME_BYTES) -> AsyncIterator[Frame]:
    """Frames out of a byte stream that arrives in pieces of any size, each as soon as its last byte is there.

    `most`: bytes of a frame.
    Raises `CutOff` where the stream ends inside a frame, another `ProtocolError` for bytes that are no frame.
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
