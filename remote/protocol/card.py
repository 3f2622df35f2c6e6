"""The card of a verifier: who it is and what it takes."""

from __future__ import annotations

from remote.protocol.fields import (
    Digest,
    Positive,
    Struct,
    Token,
)


class Limits(Struct, frozen=True):
    """What the verifier accepts. A client stays within these limits."""

    max_nodes: Positive
    max_depth: Positive
    max_tokens: Positive
    """Committed tokens of one session, prompt included."""
    max_body_bytes: Positive


class MemoryFormat(Struct, frozen=True):
    """The shape of one token's memory: `layers` rows of keys and as many of values, each `heads * size` numbers.

    Row 0 is the drafter's cross-attention. The other rows are the target's last N layers, if the drafter runs them.
    """

    digest: Digest
    """Digest of the target, LSA and the cross-attention projections. A drafter cannot use memory of another digest."""
    layers: tuple[tuple[Positive, Positive], ...]
    """(heads, size) of each row."""


class Card(Struct, frozen=True):
    """`GET /v1/card`: who the verifier is and what it takes."""

    version: int
    target: str
    vocabulary: Positive
    tokenizer: Digest
    """Digest of the tokenizer file. A client with another tokenizer cannot talk to this target."""
    chat_template: str
    stop_tokens: tuple[Token, ...]
    limits: Limits
    memory: MemoryFormat | None
    """None: this verifier has no memory encoder, so devices draft without memory."""
    drafts: bool = False
    """The verifier drafts by itself in streams. If not, each round of a stream yields one token."""
