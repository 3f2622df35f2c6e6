"""What a model proposes after tokens, and after the nodes of a growing tree: for a drafter that is a whole model."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from models.tree import DraftTree, MalformedTree
from remote.protocol.fields import Count, Positive, ProtocolError, SessionId, Struct

MOST_PROPOSED = 64
"""Most tokens that are proposed after one."""


class Propose(Struct, frozen=True):
    """`POST /v1/proposals`: what a device adds to a session that only makes proposals, and which it asks for.

    The session holds `base` tokens and, after the last of them, a tree of `since` nodes. First the nodes in `path`
    become tokens, and `append` follows; either ends the tree. Then the new nodes are added to it. Their parents count
    from the first node of the tree. A server that holds less answers 409, and changes nothing.
    """

    session: SessionId
    base: Count
    top: Annotated[int, Meta(ge=1, le=MOST_PROPOSED)]
    vocabulary: Positive
    """Only ids below this are proposed."""
    path: bytes = b""
    """int16 nodes, from the root's child down."""
    append: bytes = b""
    """int32 token ids"""
    since: Count = 0
    tokens: bytes = b""
    """int32 token ids of the new nodes."""
    parents: bytes = b""
    """int16; -1 is the last token."""

    def numbers(self) -> tuple[list[int], list[int], list[int]]:
        """The path, and the tokens and parents of the new nodes. Raises `ProtocolError`."""
        if len(self.tokens) % 4 or 2 * len(self.parents) != len(self.tokens) or len(self.path) % 2:
            raise ProtocolError(f"nodes of {len(self.tokens)} token bytes and {len(self.parents)} parent bytes")
        path, tokens = np.frombuffer(self.path, "<i2"), np.frombuffer(self.tokens, "<i4")
        return path.tolist(), tokens.tolist(), np.frombuffer(self.parents, "<i2").tolist()


class Proposed(Struct, frozen=True):
    """The answer: the likeliest tokens after the last token, if any were appended, then after each new node.

    Each has `top` of them, best first, as float32 natural logarithms of their probabilities and int32 ids. Where fewer
    are likely, -inf follows.
    """

    log_probs: bytes
    tokens: bytes

    @classmethod
    def pack(cls, log_probs: NDArray[np.float32], tokens: NDArray[np.int64]) -> Proposed:
        return cls(log_probs=log_probs.astype("<f4").tobytes(), tokens=tokens.astype("<i4").tobytes())

    def unpack(self, rows: int, top: int, vocabulary: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """The log-probabilities and ids, (rows, top) each. Raises `ProtocolError` for anything else."""
        if len(self.log_probs) != 4 * rows * top or len(self.tokens) != 4 * rows * top:
            raise ProtocolError(f"proposals of {len(self.log_probs)} bytes; {rows} rows of {top} were requested")
        log_probs = np.frombuffer(self.log_probs, "<f4").astype(np.float32).reshape(rows, top)
        tokens = np.frombuffer(self.tokens, "<i4").astype(np.int64).reshape(rows, top)
        if np.isnan(log_probs).any() or (tokens < 0).any() or (tokens >= vocabulary).any():
            raise ProtocolError("proposals that are not tokens with probabilities")
        return log_probs, tokens


def grown(tree: DraftTree, since: int, tokens: list[int], parents: list[int]) -> DraftTree:
    """The first `since` nodes of a tree, and new ones. Raises `ProtocolError`."""
    try:
        return DraftTree(
            np.append(tree.tokens[:since], np.array(tokens, np.int32)),
            np.append(tree.parents[:since], np.array(parents, np.int32)),
        )
    except MalformedTree as error:
        raise ProtocolError(f"malformed tree: {error}") from None
