"""The card of a verifier: what it serves and what it accepts."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from remote.protocol.fields import Count, Digest, FileDigest, Positive, Struct, Token


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


class DrafterOffer(Struct, frozen=True):
    """The drafter for this target that devices may fetch: `GET /v1/drafters/DIGEST`."""

    digest: FileDigest
    """SHA-256 of its `config.json`, which has the checksums of its other files."""
    size: Annotated[int, Meta(ge=1, lt=1 << 40)]
    """Bytes of all its files."""
    licence: str = ""
    """Licence of the target according to its model card, or empty."""


class Card(Struct, frozen=True):
    """`GET /v1/card`: what the verifier serves and accepts."""

    version: int
    target: str
    vocabulary: Positive
    tokenizer: Digest
    """Digest of the tokenizer file. A client with another tokenizer cannot talk to this target."""
    chat_template: str
    stop_tokens: tuple[Token, ...]
    limits: Limits
    memory: MemoryFormat | None
    """None if this verifier has no memory encoder; devices then draft without memory."""
    drafter: DrafterOffer | None = None
    """None if devices have to get a drafter elsewhere."""
    likeness: Digest | None = None
    """Digest of what the tokenizer makes of fixed texts; see `models.text.likeness`. A device whose tokenizer has the
    same one can write this model's tokens. None if devices cannot."""
    special_tokens: dict[str, str] = {}
    """Texts that the chat template knows by name, such as `bos_token`."""
    tokenizer_bytes: Count = 0
    """Bytes of the tokenizer file, which devices may fetch: `GET /v1/tokenizers/DIGEST`. 0: they may not."""
    while_away: Count = 0
    """Tokens for which a `resumable` stream continues while its device is away. 0: it ends with its line."""
    drafts: bool = False
    """The verifier drafts in streams. If not, each round of a stream yields one token."""
