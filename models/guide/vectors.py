"""Vectors of questions and examples, which are near each other if they mean the same in other words.

A text's vector is the mean of the vectors of its word pieces, so no neural network runs on the device.
`recipes/shell_guide/vectors.py` makes the table of pieces from a sentence encoder and trains it on pairs of questions
for one command.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from models.guide.mentions import Named

Floats = NDArray[np.float32]
UNKNOWN = "[UNK]"
CERTAIN = 0.8
"""How well a thing fits a kind that its form or the word beside it tells."""
EARLIER = 0.5
"""Weight of the pieces of the question before."""
_WITH_ENDING = ("archive", "file", "glob", "image", "input", "output", "script")
_ENDING = re.compile(r"(?:\.[A-Za-z]\w{0,4}){1,2}$")
WORDINGS = 64
"""The id of a wording is this times its example's id, plus its index there."""
_BLOCK = 1024
"""Wordings that are compared at a time: as many as a processor's cache holds in float32."""


class Vectors:
    """The tables of one index. Thread-safe.

    `pieces`: the vocabulary, one word piece a line, in which `##` marks a piece within a word. `table`: int8
    [pieces, dimensions]; `scales`: float16 [pieces], by which its rows are multiplied. `wordings`: int8 [wordings,
    dimensions], a vector in the direction of each wording, in the order of the examples' ids. `counts`: how many
    wordings each example has, one byte each.
    """

    def __init__(self, pieces: str, table: bytes, scales: bytes, wordings: bytes, counts: bytes) -> None:
        self._scales = np.frombuffer(scales, "<f2").astype(np.float32)
        self._table = np.frombuffer(table, np.int8).reshape(len(self._scales), -1)
        self._wordings = np.frombuffer(wordings, np.int8).reshape(-1, self._table.shape[1])
        self._starts = np.cumsum([0, *counts[:-1]])
        self.words = frozenset(pieces.split("\n"))
        """The vocabulary, with the pieces within words."""
        self._tokenizer = tokenizer(pieces.split("\n"))

    def vector(self, question: str, before: str = "") -> Floats:
        """The unit vector of a question, float32 [dimensions]; zeros if it has no piece."""
        found = self._mean(question) + EARLIER * self._mean(before)
        return np.divide(found, np.linalg.norm(found) or 1, dtype=np.float32)

    def _mean(self, text: str) -> Floats:
        ids = self._tokenizer.encode(text).ids if text else []
        if not ids:
            return np.zeros(self._table.shape[1], np.float32)
        found: Floats = (self._table[ids] * self._scales[ids, None]).mean(0)
        return found

    @cached_property
    def _lengths(self) -> Floats:
        blocks = (self._wordings[start : start + _BLOCK] for start in range(0, len(self._wordings), _BLOCK))
        squares = [np.square(block, dtype=np.float32).sum(1) for block in blocks]
        lengths: Floats = np.maximum(np.sqrt(np.concatenate(squares)), np.float32(1))
        return lengths

    def similarities(self, vector: Floats, without: Collection[int] = ()) -> Floats:
        """The cosine of each example's nearest wording with a question's vector: float32 [examples], example 1 first.

        `without`: ids of wordings that do not count (`Pages.wordings`).
        """
        found, block = np.empty(len(self._wordings), np.float32), np.empty((_BLOCK, len(vector)), np.float32)
        for start in range(0, len(found), _BLOCK):
            wordings = self._wordings[start : start + _BLOCK]
            block[: len(wordings)] = wordings
            np.dot(block[: len(wordings)], vector, out=found[start : start + _BLOCK])
        found /= self._lengths
        for one in without:
            found[self._starts[one // WORDINGS - 1] + one % WORDINGS] = -1
        return np.maximum.reduceat(found, self._starts)


def nameless(text: str, things: Iterable[Named], words: Container[str]) -> str:
    """A text that says of what kind each thing in it is, without its name, which says nothing of what is asked.

    "unpack my-photos.tar.gz into /srv" -> "unpack archive tar gz into folder". What counts as a name only because the
    index does not have it stays if it is one of these `words`: it may say what is asked.
    """
    for thing in sorted(things, key=lambda one: -one.at):
        kind = max(sorted(thing.kinds), key=lambda kind: (thing.kinds[kind], kind in ("file", "folder")))
        if thing.kinds[kind] < CERTAIN:
            if thing.text.lower() in words:
                continue
            kind = "name"
        ending = _ENDING.search(thing.text) if kind in _WITH_ENDING else None
        said = f" {kind} {ending[0].replace('.', ' ') if ending else ''} "
        text = text[: thing.at] + said + text[thing.at + len(thing.text) :]
    return text


def tokenizer(pieces: list[str]) -> Tokenizer:
    """The tokenizer with this vocabulary: lower case, no accents, longest piece first."""
    found = Tokenizer(WordPiece({piece: place for place, piece in enumerate(pieces)}, unk_token=UNKNOWN))
    found.normalizer = BertNormalizer()
    found.pre_tokenizer = BertPreTokenizer()
    return found
