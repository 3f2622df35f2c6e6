"""What one session leaves to learn from: its rounds, the memory that was sent, and what the target found likely.

An answer begins with the first round after tokens that somebody appended. It ends when the target ends it, or when the
session goes on with other tokens. What the device gave up of it is no part of it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from drafter.learning.samples import Round
from remote.verifier.learning.answers import Answer, Piece

MOST_TOKENS = 1_024
"""Tokens of a conversation that is learnt from: the learner's attention grows with their square."""
FEWEST_TOKENS = 4
"""Shorter answers teach nothing."""


class Trail:
    """The trail of one session. `holder`: who began it. It belongs to the engine's thread."""

    def __init__(self, holder: str) -> None:
        self.holder = holder
        self.bytes = 0
        """Bytes of the memory that it holds."""
        self._pieces: dict[int, Piece] = {}
        self._covered = 0
        self._rounds: list[Round] = []
        self._likeliest: list[NDArray[np.int32]] = []
        self._log_probs: list[NDArray[np.float16]] = []

    def go_on(self, tokens: Sequence[int], base: int, append: Sequence[int]) -> Answer | None:
        """Note that the session's tokens become the first `base` ones and `append`. Returns the answer that ends so.

        `tokens`: the session's tokens until now.
        """
        agreed = base
        for old, new in zip(tokens[base:], append):
            if old != new:
                break
            agreed += 1
        if agreed == len(tokens) == base + len(append):
            return None
        ended = self.end(tokens[:agreed])
        self._cut(agreed)
        return ended

    def gain(self, length: int, memory: int, likeliest: NDArray[np.int32], log_probs: NDArray[np.float16]) -> None:
        """Note a round after `length` tokens, drafted with the memory of the first `memory` ones.

        `likeliest`, `log_probs` (n, K): what the target found likely at each of the n tokens that the round brought.
        """
        if self._rounds and length != self._rounds[0].length + sum(map(len, self._likeliest)):
            self._rounds, self._likeliest, self._log_probs = [], [], []  # Rounds between were not noted.
        if length + len(likeliest) <= MOST_TOKENS:
            self._rounds.append(Round(length, self._remembered(min(memory, length))))
            self._likeliest.append(likeliest)
            self._log_probs.append(log_probs)

    def remember(self, start: int, count: int, data: bytes) -> None:
        """Note memory that was made for the device, or for the verifier's own drafts."""
        if start + count <= MOST_TOKENS:
            self._keep(Piece(start, count, count, data))

    def end(self, tokens: Sequence[int]) -> Answer | None:
        """The answer that was written, as far as it is in `tokens`; None: there is none that teaches anything."""
        rounds = [one for one in self._rounds if one.length < len(tokens)]
        likeliest, log_probs = self._likeliest, self._log_probs
        self._rounds, self._likeliest, self._log_probs = [], [], []
        if not rounds:
            return None
        count = min(len(tokens) - rounds[0].length, sum(map(len, likeliest)))
        if count < FEWEST_TOKENS:
            return None
        last = max(one.memory for one in rounds)
        return Answer(
            tuple(tokens[: rounds[0].length + count]),
            tuple(one for one in rounds if one.length < rounds[0].length + count),
            tuple(piece for piece in self._ordered() if piece.start < last),
            np.concatenate(likeliest)[:count],
            np.concatenate(log_probs)[:count],
        )

    def _remembered(self, wanted: int) -> int:
        """How many tokens from the first one on have their memory here, at most `wanted`."""
        if wanted > self._covered:
            for piece in self._ordered():
                if piece.start > self._covered:
                    break
                self._covered = max(self._covered, piece.end)
        return min(wanted, self._covered)

    def _cut(self, length: int) -> None:
        """Forget the memory of the tokens from `length` on."""
        for piece in [one for one in self._pieces.values() if one.end > length]:
            self.bytes -= len(self._pieces.pop(piece.start).data)
            if piece.start < length:
                self._keep(Piece(piece.start, length - piece.start, piece.count, piece.data))
        self._covered = min(self._covered, length)

    def _keep(self, piece: Piece) -> None:
        before = self._pieces.get(piece.start)
        if before is None or before.end < piece.end:
            self.bytes += len(piece.data) - (0 if before is None else len(before.data))
            self._pieces[piece.start] = piece

    def _ordered(self) -> list[Piece]:
        return sorted(self._pieces.values(), key=lambda piece: piece.start)
