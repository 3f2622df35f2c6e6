"""Where the words of now stood before: an index over the n-grams of a token sequence that grows and rewinds with it.

What followed then is a guess at what follows now: the n-gram stage of staged speculative decoding (arXiv 2308.04623),
prompt lookup where the sequence is the conversation itself, retrieval (REST, arXiv 2311.08252) where it holds others.
Occurrences of an n-gram are chained from the newest to the oldest, as LZ77 compressors chain them (RFC 1951, section
4), so that a token is added or taken back in constant time. Token ids only; knows nothing of models.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

SHORTEST = 2
"""Tokens that an occurrence must share with the end of the text."""
LONGEST = 16
"""Tokens beyond which a longer match says nothing more."""
OCCURRENCES = 32
"""The newest ones are looked at, and no more: a frequent n-gram must not cost more than a rare one."""
BREAK = -1
"""Between two texts of one index: no match and no continuation reaches across it."""


class Match(NamedTuple):
    """The best occurrence of the end of a text."""

    length: int
    """Tokens that it shares with the end of the text, at most `LONGEST`."""
    position: int
    """Where in the index's tokens it goes on."""
    share: float
    """Of all occurrences of that length, those that go on with the same token."""


class NGramIndex:
    """A token sequence, and where each of its n-grams of `SHORTEST` tokens ends."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self._newest: dict[tuple[int, ...], int] = {}
        """N-gram -> where its newest occurrence ends."""
        self._older: list[int] = []
        """Per end of an n-gram: where its occurrence before that one ends; 0: there is none."""

    def extend(self, tokens: Sequence[int]) -> None:
        """Append tokens; `BREAK` ends a text."""
        for token in tokens:
            self.tokens.append(token)
            ngram = tuple(self.tokens[-SHORTEST:])
            self._older.append(self._newest.get(ngram, 0))
            if len(ngram) == SHORTEST:
                self._newest[ngram] = len(self.tokens)

    def rewind(self, length: int) -> None:
        """Forget all tokens from position `length` on."""
        while len(self.tokens) > length:
            ngram, older = tuple(self.tokens[-SHORTEST:]), self._older.pop()
            if older:
                self._newest[ngram] = older
            else:
                self._newest.pop(ngram, None)
            self.tokens.pop()

    def match(self, text: Sequence[int]) -> Match | None:
        """The occurrence here that shares most with the end of `text`; None where not even `SHORTEST` tokens are.

        Among equally long ones, one that goes on as most of them do, and of those the newest. `text` may be this
        index's own tokens: their end is no occurrence, because nothing follows it.
        """
        best = 0
        follows: dict[int, list[int]] = {}  # Next token -> where it follows, newest first.
        end = self._newest.get(tuple(text[-SHORTEST:]), 0)
        for _ in range(OCCURRENCES):
            if not end:
                break
            if end < len(self.tokens) and (next_token := self.tokens[end]) != BREAK:
                length = self._shared(text, end)
                if length > best:
                    best, follows = length, {}
                if length == best:
                    follows.setdefault(next_token, []).append(end)
            end = self._older[end - 1]
        if not follows:
            return None
        most = max(follows.values(), key=len)
        return Match(best, most[0], len(most) / sum(map(len, follows.values())))

    def continuation(self, position: int, most: int) -> list[int]:
        """What follows from `position` on, at most `most` tokens, to the end of its text.

        A text that is not broken off yet is taken to repeat what followed, as often as it takes.
        """
        chain: list[int] = []
        period = len(self.tokens) - position
        for at in range(most):
            token = self.tokens[position + at % period]
            if token == BREAK:
                break
            chain.append(token)
        return chain

    def _shared(self, text: Sequence[int], end: int) -> int:
        """Tokens that `text` and what ends at `end` share, from the last one back."""
        most = min(LONGEST, len(text), end)
        length = SHORTEST
        while length < most and text[-1 - length] == self.tokens[end - 1 - length]:
            length += 1
        return length
