"""What device and verifier say to each other: rounds, streams, and their replies."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from remote.protocol.fields import Count, Digest, Positive, SessionId, Struct, Token, TopTokens
from remote.protocol.likeliest import Likeliest
from remote.protocol.tree import Tree


class Sampling(Struct, frozen=True):
    """How the target chooses tokens. As in transformers: first temperature, then top-k, then top-p."""

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
    answers 409 with a `Conflict` and changes nothing; the device may send the round again with another base under the
    same number. `round` grows with each new round of a session, and may skip numbers whose round never arrived.
    Repeating the last number repeats its reply; a lower one is out of order.
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
    """Send memory of the tokens from this position on, or None to send none."""
    likeliest: TopTokens = 0
    """How many of the target's likeliest tokens to send, at each new token and after rejected nodes. 0: send none."""


class Verdict(Struct, frozen=True):
    """The first frame of the reply to a round."""

    round: Count
    accepted: tuple[Count, ...]
    """Node indices, from the root's child down."""
    bonus: Token | None
    """The token after the accepted ones. None only if the last accepted token is a stop token, or the session is
    full."""
    length: Count
    """Committed tokens now, including the accepted ones and the bonus token."""
    digest: Digest
    """Digest of these committed tokens."""
    finished: bool
    """The last committed token is a stop token, or the session is full."""
    server_seconds: Annotated[float, Meta(ge=0, le=86_400)]
    """From the request's last byte to this frame, waiting included; in a repeated reply, from the repeated request."""


class Memory(Struct, frozen=True):
    """A later frame: activations of the target for the committed tokens `start .. start + count`.

    Each row of the format is packed as keys (count, heads, size), float16 key scales (count, heads), then values and
    value scales of the same shapes. Keys and values are int8 or int4, depending on the size; see `models.memory`.
    """

    digest: Digest
    """Digest of the `MemoryFormat`."""
    start: Count
    count: Positive
    data: bytes


class Stream(Struct, frozen=True):
    """`POST /v1/streams`: hosted mode. The verifier drafts on its own and sends what it has verified, by round.

    The fields from `session` to `append`, `sampling`, `memory_from` and `likeliest` are those of a `Round`. Rounds and
    streams of a session share their numbers, and a stream's number is higher than any before. A device that breaks off
    continues with a round or another stream from what it has. The tokens are the same, whoever drafts.
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
    """False: one token a round, as without a drafter."""
    sampling: Sampling = Sampling()
    memory_from: Count | None = None
    likeliest: TopTokens = 0
    alive: bool = False
    """Send signs of life."""
    resumable: bool = False
    """Continue if the line breaks, and keep what is written: the device may ask for it, and says when it no longer
    needs it."""


class Progress(Struct, frozen=True):
    """A frame of a stream: the result of one of the verifier's own rounds."""

    tokens: bytes
    """int32 token ids, at least one."""
    drafted: Count
    """How many of the tokens it had guessed."""
    length: Count
    """Committed tokens now."""
    digest: Digest
    """Digest of these committed tokens."""
    finished: bool
    """The last committed token is a stop token, or the session is full."""
    server_seconds: Annotated[float, Meta(ge=0, le=86_400)]
    """Time of drafting and verifying, without waiting for other sessions. In the first frame, from the request's last
    byte on, waiting included."""

    @property
    def gained(self) -> int:
        """How many tokens the frame brings."""
        return len(self.tokens) // 4  # int32


class Alive(Struct, frozen=True):
    """A sign of life in a stream, first sent after the first `Progress`."""

    seconds: Annotated[float, Meta(ge=0.01, le=60)]
    """The longest time until the next frame of any kind is sent."""


class Conflict(Struct, frozen=True):
    """The body of a 409: prefixes that the verifier holds, longest first, as (length, digest).

    The last one is always (0, ...).
    """

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
    """The body of every other 4xx and 5xx."""

    code: ErrorCode
    message: str
    """One sentence for a person: what failed and what to do."""
    retry: bool
    """The same request may succeed later."""


Frame = Verdict | Memory | Progress | Likeliest | Alive

KINDS: tuple[type[Frame], ...] = (Verdict, Memory, Progress, Likeliest, Alive)
"""The kinds of frames, by their kind byte."""
