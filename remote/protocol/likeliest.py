"""The target's likeliest alternatives, on the wire."""

from __future__ import annotations

import numpy as np

from drafter.learning.distributions import MOST, Floats, Ids, MalformedDistributions, ragged
from remote.protocol.fields import Count, ProtocolError, Struct

MOST_REJECTED = 8
"""Most rejected nodes of a round whose distributions are sent: the first ones of the tree."""
SURPLUS = 0.01
"""How much more than 1 probabilities may add up to. Eight of them in float16 are off by at most 0.001."""


class Likeliest(Struct, frozen=True):
    """A later frame, sent only on request: the target's likeliest tokens at some positions.

    Each distribution is the softmax of the target's logits, before temperature, top-k and top-p. First come those of
    `count` committed tokens from position `start` on, from which these tokens were chosen; then those after the
    rejected `nodes`, whose parents are the root or accepted. A distribution has at most the requested number of tokens,
    likeliest first; those below 1 in 1,024 may be missing. The remaining probability belongs to all other tokens.
    """

    start: Count
    count: Count
    counts: bytes
    """uint8 for each distribution: its number of tokens, at least one."""
    tokens: bytes
    """int32 token ids."""
    log_probs: bytes
    """float16 natural logarithms, in the order of the tokens."""
    nodes: bytes = b""
    """uint16 indices of nodes, rising; at most `MOST_REJECTED`. A stream has none, because its trees are not known."""

    @classmethod
    def pack(cls, start: int, count: int, nodes: list[int], tokens: Ids, log_probs: Floats) -> Likeliest:
        """`tokens` and `log_probs` (count + len(nodes), K), filled up with -1 and -inf."""
        listed = tokens >= 0
        return cls(
            start=start,
            count=count,
            nodes=np.array(nodes, "<u2").tobytes(),
            counts=listed.sum(axis=1).astype("u1").tobytes(),
            tokens=tokens[listed].astype("<i4").tobytes(),
            log_probs=log_probs[listed].astype("<f2").tobytes(),
        )

    def unpack(self, most: int) -> tuple[list[int], Ids, Floats]:
        """The nodes, and for each distribution its tokens and log-probabilities, as in `Distributions`.

        `most`: tokens that were requested. Raises `ProtocolError` for anything that is not a distribution.
        """
        if len(self.nodes) % 2 or len(self.tokens) % 4 or len(self.log_probs) % 2:
            raise ProtocolError("distributions of a ragged length")
        if len(self.nodes) > 2 * MOST_REJECTED:
            raise ProtocolError(f"distributions of {len(self.nodes) // 2} rejected nodes; {MOST_REJECTED} are read")
        nodes, tokens = [int(node) for node in np.frombuffer(self.nodes, "<u2")], np.frombuffer(self.tokens, "<i4")
        counts, log_probs = np.frombuffer(self.counts, "u1"), np.frombuffer(self.log_probs, "<f2").astype(np.float32)
        if not len(counts) or len(counts) != self.count + len(nodes) or int(counts.max()) > min(most, MOST):
            raise ProtocolError(f"{len(counts)} distributions of {self.count} tokens and {len(nodes)} nodes")
        if not np.isfinite(log_probs).all() or (log_probs > 0).any():
            raise ProtocolError("an invalid log-probability")
        if tokens.size and int(tokens.min()) < 0:
            raise ProtocolError(f"negative token id {int(tokens.min())}")
        try:
            rows, chances = ragged(counts, tokens, log_probs)
        except MalformedDistributions as error:
            raise ProtocolError(f"malformed distributions: {error}") from None
        if (chances[:, :-1] < chances[:, 1:]).any() or (np.exp(chances).sum(axis=1) > 1 + SURPLUS).any():
            raise ProtocolError("probabilities that rise, or are more than 1 together")
        ordered = np.sort(np.where(rows < 0, -1 - np.arange(MOST), rows), axis=1)
        if (ordered[:, 1:] == ordered[:, :-1]).any():
            raise ProtocolError("a distribution that has a token twice")
        return nodes, rows, chances
