"""An index of n-grams over a growing and shrinking token sequence: it finds earlier occurrences of its last words.

What followed them is a guess at what follows now. This is the n-gram stage of staged speculative decoding (arXiv
2308.04623); prompt lookup, if the sequence is the conversation itself; retrieval (REST, arXiv 2311.08252), if it holds
other texts. Occurrences of an n-gram are chained from the newest to the oldest, as in LZ77 compressors (RFC 1951,
section 4), so a token is added or removed in constant time. Token ids only.

A drafter's *datastore* is such an index on disk: answers that its target gave in training.
"""

from __future__ import annotations

import zipfile
from array import array
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.config import DrafterCorrupt

SHORTEST = 2
"""Tokens at the end of the text that an occurrence must share."""
LONGEST = 16
"""A longer match is no more informative than one of this many tokens."""
OCCURRENCES = 16
"""Only this many of the newest occurrences are examined, so a frequent n-gram costs no more than a rare one."""
BREAK = -1
"""Separates two texts in one index: no match and no continuation crosses it."""


class Match(NamedTuple):
    """An earlier occurrence of the end of a text, and what followed it there."""

    length: int
    """Tokens that it shares with the end of the text, at most `LONGEST`."""
    position: int
    """Place in the tokens of the index at which the continuation begins."""
    source: NGramIndex

    def following(self, at: int) -> int:
        """The token `at` places later, or `BREAK` at the end of its text; tokens beyond that belong to another text.

        Beyond the end of an unfinished text, the continuation is assumed to repeat as often as needed.
        """
        tokens = self.source.tokens
        if self.position + at < len(tokens):
            return tokens[self.position + at]
        period = len(tokens) - self.position
        return BREAK if tokens[-1] == BREAK else tokens[self.position + at % period]


class NGramIndex:
    """A token sequence, and where each of its n-grams of `SHORTEST` tokens ends."""

    def __init__(self) -> None:
        self.tokens = array("i")
        self._newest: dict[tuple[int, ...], int] = {}
        """N-gram -> where its newest occurrence ends."""
        self._older = array("i")
        """For each end of an n-gram: where its previous occurrence ends, or 0."""

    @classmethod
    def of(cls, tokens: NDArray[np.int32]) -> NGramIndex:
        """Build the index of many tokens (n,) at once: the same as with `extend`, in a third of the time."""
        index = cls()
        index.tokens = array("i", tokens.astype(np.int32).tobytes())
        if not len(tokens):
            return index
        grams = (
            np.lib.stride_tricks.sliding_window_view(tokens, SHORTEST) if len(tokens) >= SHORTEST else tokens[:0, None]
        )
        order = (
            np.lexsort(grams.T) if len(grams) else np.zeros(0, np.int64)
        )  # Equal n-grams stay in the order of the text.
        ends, repeated = order + SHORTEST, (grams[order[1:]] == grams[order[:-1]]).all(axis=1)
        older = np.zeros(len(tokens), np.int32)
        older[ends[1:][repeated] - 1] = ends[:-1][repeated]
        index._older = array("i", older.tobytes())
        newest = np.append(~repeated, True)[: len(order)]
        index._newest = dict(zip(map(tuple, grams[order[newest]].tolist()), ends[newest].tolist()))
        return index

    def extend(self, tokens: Sequence[int]) -> None:
        """Append tokens. `BREAK` ends a text."""
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

    def matches(self, text: Sequence[int]) -> list[Match]:
        """The occurrences of the end of `text` that are followed by something, newest first.

        `text` may be this index's own tokens: their end does not count, because nothing follows it.
        """
        found: list[Match] = []
        end = self._newest.get(tuple(text[-SHORTEST:]), 0)
        for _ in range(OCCURRENCES):
            if not end:
                break
            if end < len(self.tokens) and self.tokens[end] != BREAK:
                found.append(Match(self._shared(text, end), end, self))
            end = self._older[end - 1]
        return found

    def _shared(self, text: Sequence[int], end: int) -> int:
        """How many tokens `text` and the sequence up to `end` share, counted back from the last one."""
        most = min(LONGEST, len(text), end)
        length = SHORTEST
        while length < most and text[-1 - length] == self.tokens[end - 1 - length]:
            length += 1
        return length


def save_datastore(path: Path, texts: Iterable[Sequence[int]]) -> None:
    """Write texts of token ids as a compressed array, with `BREAK` after each."""
    tokens = np.array([token for text in texts for token in (*text, BREAK)], np.int32)
    np.savez_compressed(path, tokens=tokens)


def load_datastore(path: Path, vocabulary: int) -> NGramIndex:
    """The texts of a datastore as an index.

    Raises `DrafterCorrupt` for another file, and for ids outside the vocabulary.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            tokens = file["tokens"]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise DrafterCorrupt(f"{path} cannot be read ({error}). Reinstall the drafter.") from None
    known = tokens.ndim == 1 and tokens.dtype == np.int32
    if not known or (tokens.size and not BREAK <= tokens.min() <= tokens.max() < vocabulary):
        raise DrafterCorrupt(f"{path} holds no tokens of this drafter. Reinstall the drafter.")
    return NGramIndex.of(tokens)
