"""The trail of one session to learn from: its rounds, the memory that was sent, and what the target found likely.

An answer begins with the first round after tokens appended by the client. It ends when the target ends it, or when the
session continues with other tokens. Tokens that the device discarded are not part of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from os.path import commonprefix

from drafter.learning.distributions import Distributions
from drafter.learning.samples import Round
from remote.verifier.learning.answers import Answer, Piece

MOST_TOKENS = 1_024
"""Longest conversation that is learnt from, in tokens: the cost of attention grows with their square."""
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
        self._gained = 0
        self._target: list[Distributions] = []

    def go_on(self, tokens: Sequence[int], base: int, append: Sequence[int]) -> Answer | None:
        """Note that the session's tokens become the first `base` ones and `append`. Returns the answer that this ends.

        `tokens`: the session's tokens until now.
        """
        agreed = base + len(commonprefix((list(tokens[base:]), list(append))))
        if agreed == len(tokens) == base + len(append):
            return None
        ended = self.end(tokens[:agreed])
        self._cut(agreed)
        return ended

    def gain(self, length: int, memory: int, count: int, target: Distributions) -> None:
        """Record a round after `length` tokens that brought `count` more, drafted with the memory of `memory` tokens.

        `target`: what the target might have said there.
        """
        if self._rounds and length != self._rounds[0].length + self._gained:
            self._rounds, self._target, self._gained = [], [], 0  # Rounds in between were not recorded.
        if length + count <= MOST_TOKENS:
            self._rounds.append(Round(length, self._remembered(min(memory, length))))
            self._target.append(target)
            self._gained += count

    def remember(self, start: int, count: int, data: bytes) -> None:
        """Record memory that was computed for the device or for the verifier's own drafts."""
        if start + count <= MOST_TOKENS:
            self._keep(Piece(start, count, count, data))

    def end(self, tokens: Sequence[int]) -> Answer | None:
        """The part of the answer that is in `tokens`, or None if there is nothing to learn from."""
        rounds = [one for one in self._rounds if one.length < len(tokens)]
        target, gained = self._target, self._gained
        self._rounds, self._target, self._gained = [], [], 0
        if not rounds:
            return None
        begin, end = rounds[0].length, min(len(tokens), rounds[0].length + gained)
        if end - begin < FEWEST_TOKENS:
            return None
        last = max(one.memory for one in rounds)
        return Answer(
            tuple(tokens[:end]),
            tuple(one for one in rounds if one.length < end),
            tuple(piece for piece in self._ordered() if piece.start < last),
            Distributions.of(target).within(begin, end).pack(),
        )

    def _remembered(self, wanted: int) -> int:
        """How many tokens, from the first one on, have memory here, at most `wanted`."""
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
