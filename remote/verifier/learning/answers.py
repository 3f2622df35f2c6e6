"""The answers that the verifier's drafter can learn from, kept in memory only, limited in number and size."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field

import msgspec

from drafter.learning.samples import Round

MOST_ANSWERS = 2_000
"""Most answers of one holder that are kept, the newest ones."""
MOST_BYTES = 256 << 20
"""Most bytes of all answers together, and of those still being written."""


class Piece(msgspec.Struct, frozen=True, array_like=True):
    """Memory of consecutive tokens, in wire format."""

    start: int
    valid: int
    """How many of its first rows still belong to the tokens."""
    count: int
    data: bytes

    @property
    def end(self) -> int:
        """The position after the last token whose memory it has."""
        return self.start + self.valid


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """One answer of the target, and what the drafter had when it drafted it."""

    tokens: tuple[int, ...]
    """The conversation's token ids, to the end of the answer."""
    rounds: tuple[Round, ...]
    memory: tuple[Piece, ...]
    target: bytes
    """What the target might have said at its tokens and after rejected ones: packed `Distributions`."""

    @property
    def size(self) -> int:
        """About how many bytes it takes: tokens and rounds are Python objects."""
        memory = sum(len(one.data) for one in self.memory)
        return 40 * len(self.tokens) + 120 * len(self.rounds) + memory + len(self.target)


@dataclass
class Kept:
    """The answers of one holder, oldest first, with increasing numbers."""

    answers: deque[tuple[int, Answer]] = field(default_factory=deque)
    bytes: int = 0


class Answers:
    """The answers of all holders. Threads may share it."""

    def __init__(self, most: int = MOST_ANSWERS, most_bytes: int = MOST_BYTES) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._kept: dict[str, Kept] = {}
        self._next = 0
        self._lock = threading.Lock()

    @property
    def bytes(self) -> int:
        return sum(kept.bytes for kept in list(self._kept.values()))

    def add(self, holder: str, answer: Answer) -> None:
        """Keep an answer. If there is no room, older ones are dropped, first those of the holder who has the most."""
        with self._lock:
            kept = self._kept.setdefault(holder, Kept())
            kept.answers.append((self._next, answer))
            kept.bytes += answer.size
            self._next += 1
            if len(kept.answers) > self._most:
                self._forget_oldest(kept)
            self._fit(self._most_bytes)

    def fits(self, more: int) -> bool:
        """Whether there is room for `more` bytes of answers still being written. Older answers are dropped for them."""
        with self._lock:
            if more > self._most_bytes:
                return False
            self._fit(self._most_bytes - more)
            return True

    def of(self, holder: str) -> list[tuple[int, Answer]]:
        """The answers of a holder with their numbers, oldest first."""
        with self._lock:
            kept = self._kept.get(holder)
            return [] if kept is None else list(kept.answers)

    def counts(self) -> dict[str, int]:
        """How many answers each holder has."""
        with self._lock:
            return {name: len(kept.answers) for name, kept in self._kept.items()}

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._kept.clear()

    def _fit(self, most: int) -> None:
        while self.bytes > most:
            self._forget_oldest(max(self._kept.values(), key=lambda kept: kept.bytes))

    def _forget_oldest(self, kept: Kept) -> None:
        _, answer = kept.answers.popleft()
        kept.bytes -= answer.size
