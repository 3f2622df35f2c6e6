"""What the replies of a verifier may hold, by what it was asked for and by its card. More is a fault of its own.

A verifier that lies must not take this device's memory or time, nor put a token into an answer that no vocabulary has.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from remote.errors import Incompatible
from remote.protocol import MAX_FRAME_BYTES, Card, Memory

FRAME_BYTES = 256 * 1024
"""Of a frame without memory: a verdict on the largest tree has 160 KiB."""
SLOWEST_BYTES_PER_SECOND = 8_000.0
"""Of a line on which memory is still waited for."""


@dataclass(frozen=True)
class Bounds:
    """`vocabulary`: token ids are below it. `token_bytes`: most bytes of one token's memory. The defaults bound little,
    for a caller that has not seen the card."""

    vocabulary: int = 1 << 31
    token_bytes: int = MAX_FRAME_BYTES

    @classmethod
    def of(cls, card: Card) -> Bounds:
        """By the format that the card announces, in 8 bits a number with a float16 scale for each head."""
        layers = () if card.memory is None else card.memory.layers
        return cls(card.vocabulary, sum(2 * heads * (size + 2) for heads, size in layers))

    def frame_bytes(self, tokens: int) -> int:
        """Of the largest frame of a reply that has memory of at most so many tokens."""
        return min(MAX_FRAME_BYTES, FRAME_BYTES + tokens * self.token_bytes)

    def check_tokens(self, tokens: Iterable[int], host: str) -> None:
        """Raises `Incompatible` for a token that the vocabulary does not have."""
        for token in tokens:
            if not 0 <= token < self.vocabulary:
                raise Incompatible(
                    f"{host} gave token {token} of a vocabulary of {self.vocabulary}; update or restart the verifier"
                )


class MemoryBudget:
    """What may still come of the memory that was asked for from `start` on; each token's comes once."""

    def __init__(self, bounds: Bounds, start: int | None, host: str) -> None:
        self._bounds, self._start, self._host = bounds, start, host
        self._taken = 0

    def take(self, frame: Memory, length: int) -> None:
        """Raises `Incompatible` where the frame, while `length` tokens are committed, was not asked for."""
        self._taken += frame.count
        start, end = self._start, frame.start + frame.count
        if start is None or frame.start < start or end > length or self._taken > length - start:
            raise Incompatible(f"{self._host} sent memory that was not asked for; update the verifier")
        if len(frame.data) > frame.count * self._bounds.token_bytes:
            raise Incompatible(f"{self._host} sent more memory of a token than its card says; update the verifier")

    def seconds(self, length: int) -> float:
        """For what is left of it, on the slowest line."""
        left = 0 if self._start is None else max(0, length - self._start - self._taken)
        return min(left * self._bounds.token_bytes, MAX_FRAME_BYTES) / SLOWEST_BYTES_PER_SECOND
