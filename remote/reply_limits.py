"""What the replies of a verifier may hold, given its card and what it was asked for.

A verifier that lies must not take this device's memory or time, and must not put an unknown token into an answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from remote.errors import Incompatible
from remote.protocol import MAX_FRAME_BYTES, Card, Memory

FRAME_BYTES = 256 * 1024
"""Longest frame without memory. A verdict on the largest tree has 160 KiB."""
SLOWEST_BYTES_PER_SECOND = 8_000.0
"""Slowest line on which memory is still waited for."""


@dataclass(frozen=True)
class ReplyLimits:
    """Limits on token ids and on the size of memory.

    `vocabulary`: token ids are below it. `token_bytes`: most bytes of one token's memory. The defaults are wide, for a
    caller that has not seen the card.
    """

    vocabulary: int = 1 << 31
    token_bytes: int = MAX_FRAME_BYTES

    @classmethod
    def of(cls, card: Card) -> ReplyLimits:
        """The limits of the format that a card announces, with 8 bits a number and a float16 scale for each head."""
        layers = () if card.memory is None else card.memory.layers
        return cls(card.vocabulary, sum(2 * heads * (size + 2) for heads, size in layers))

    def frame_bytes(self, tokens: int) -> int:
        """Size of the largest frame in a reply with memory of at most so many tokens."""
        return min(MAX_FRAME_BYTES, FRAME_BYTES + tokens * self.token_bytes)

    def check_tokens(self, tokens: Iterable[int], host: str) -> None:
        """Raises `Incompatible` for a token that is not in the vocabulary."""
        for token in tokens:
            if not 0 <= token < self.vocabulary:
                raise Incompatible(
                    f"{host} gave token {token} of a vocabulary of {self.vocabulary}; update or restart the server"
                )


class MemoryBudget:
    """How much memory may still arrive of what was asked for from `start` on. The memory of each token comes once."""

    def __init__(self, bounds: ReplyLimits, start: int | None, host: str) -> None:
        self._bounds, self._start, self._host = bounds, start, host
        self._taken = 0

    def take(self, frame: Memory, length: int) -> None:
        """Count a frame. Raises `Incompatible` if it was not asked for, given `length` committed tokens."""
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
