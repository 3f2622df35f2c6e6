"""What the replies of a verifier may contain, given its card and the request.

A lying verifier must not be able to exhaust this device's memory or time, or to put an unknown token into an answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from drafter.learning.distributions import TEXT, Distributions
from models.tree import DraftTree
from remote.errors import UPDATE, Incompatible, quoted
from remote.protocol import MAX_FRAME_BYTES, Card, Likeliest, Memory, ProtocolError

FRAME_BYTES = 256 * 1024
"""Longest frame without memory. A verdict on the largest tree has 160 KiB."""
SLOWEST_BYTES_PER_SECOND = 8_000.0
"""Slowest line on which the device still waits for memory."""


@dataclass(frozen=True)
class ReplyLimits:
    """Limits on token ids and on the size of memory.

    `vocabulary`: token ids are below it. `token_bytes`: most bytes of one token's memory. The defaults are generous,
    for a caller that has not seen the card.
    """

    vocabulary: int = 1 << 31
    token_bytes: int = MAX_FRAME_BYTES

    @classmethod
    def of(cls, card: Card) -> ReplyLimits:
        """The limits of the format that a card announces, with 8 bits a number and a float16 scale for each head."""
        layers = () if card.memory is None else card.memory.layers
        return cls(card.vocabulary, sum(2 * heads * (size + 2) for heads, size in layers))

    def frame_bytes(self, tokens: int) -> int:
        """Size of the largest frame in a reply with memory of at most this many tokens."""
        return min(MAX_FRAME_BYTES, FRAME_BYTES + tokens * self.token_bytes)

    def check_tokens(self, tokens: Iterable[int], host: str) -> None:
        """Raises `Incompatible` for a token that is not in the vocabulary."""
        for token in tokens:
            if not 0 <= token < self.vocabulary:
                raise Incompatible(
                    f"{host} gave token {token} of a vocabulary of {self.vocabulary}; update or restart the server"
                )


class MemoryBudget:
    """How much of the memory requested from `start` on may still arrive. The memory of each token arrives once."""

    def __init__(self, bounds: ReplyLimits, start: int | None, host: str) -> None:
        self._bounds, self._start, self._host = bounds, start, host
        self._taken = 0

    def take(self, frame: Memory, length: int) -> None:
        """Count a frame. Raises `Incompatible` if it was not requested, given `length` committed tokens."""
        self._taken += frame.count
        start, end = self._start, frame.start + frame.count
        if start is None or frame.start < start or end > length or self._taken > length - start:
            raise Incompatible(f"{self._host} sent memory that was not asked for; update the server")
        if len(frame.data) > frame.count * self._bounds.token_bytes:
            raise Incompatible(f"{self._host} sent more memory of a token than its card says; update the server")

    def seconds(self, length: int) -> float:
        """Seconds that the rest may take on the slowest line."""
        left = 0 if self._start is None else max(0, length - self._start - self._taken)
        return min(left * self._bounds.token_bytes, MAX_FRAME_BYTES) / SLOWEST_BYTES_PER_SECOND


class LikeliestBudget:
    """Which of the target's distributions may still arrive: one for each new token, and those of rejected nodes.

    `most`: requested tokens of each; 0: none were requested. `begin`: position of the first new token.
    """

    def __init__(self, bounds: ReplyLimits, most: int, begin: int, host: str) -> None:
        self._bounds, self._most, self._next, self._host = bounds, most, begin, host

    def take(
        self, frame: Likeliest, length: int, tree: DraftTree | None = None, accepted: Sequence[int] = ()
    ) -> Distributions:
        """The content of a frame, given `length` committed tokens. `tree`: the one that was sent, if any.

        Raises `Incompatible` for what was not requested, and for anything that is not a distribution over the
        vocabulary.
        """
        begin, end = frame.start, frame.start + frame.count
        if not self._most or begin < self._next or not begin < end <= length:
            raise Incompatible(f"{self._host} sent distributions that were not asked for; {UPDATE}")
        try:
            nodes, tokens, log_probs = frame.unpack(self._most)
        except ProtocolError as error:
            raise Incompatible(f"{self._host} sent {quoted(str(error))}; {UPDATE}") from None
        self._bounds.check_tokens([int(tokens.max())], self._host)
        rejected = [] if tree is None else tree.rejected(accepted, len(tree))
        if nodes != sorted(set(nodes) & set(rejected)):
            raise Incompatible(f"{self._host} sent distributions for nodes that were not rejected; {UPDATE}")
        positions, instead = [*range(begin, end)], [TEXT] * frame.count
        if tree is not None and nodes:
            positions += [self._next + int(depth) for depth in tree.depths()[nodes]]
            instead += [int(token) for token in tree.tokens[nodes]]
        self._next = end
        return Distributions(np.array(positions, np.int64), np.array(instead, np.int64), tokens, log_probs)
