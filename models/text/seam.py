"""Continues a text at the character where it breaks off, with any tokenizer (token healing).

A text rarely breaks off where a token ends, and a model that reads a word split in the wrong place continues it as it
would never continue the whole word: "key-val" becomes "key-valUES". So the tokens of the last word are taken back, and
its characters are forced: until all of them are written, only tokens that spell them may come. The last of these
tokens may be longer; the text then continues with the rest of it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.text.chat_text import ChatText

MOST_TAKEN_BACK = 8
"""Tokens that are taken back at most, unless a character would be cut in two: some texts have no spaces."""
LAST_BYTE = b"\xff"
"""No character in UTF-8 has this byte."""


@dataclass(frozen=True)
class Seam:
    """Where a model continues a text."""

    read: list[int]
    """The tokens that the model reads."""
    taken_back: list[int]
    """The tokens after them, which spell `forced`. Others may spell it better."""
    forced: bytes
    """What the next tokens must spell: the end of the text."""
    known: int
    """Characters of the text that `forced` spells, which may begin with a space that the tokenizer adds."""


def seam(text: ChatText, begun: str) -> Seam:
    """Where a model continues `begun`."""
    tokens, data = text.encode(begun), begun.encode()
    kept, forced = len(tokens), b""
    while kept and not (_begins_word(data, forced) or (len(tokens) - kept >= MOST_TAKEN_BACK and _is_whole(forced))):
        grown = text.spelling(tokens[kept - 1])[1] + forced
        if kept == 1 and grown == b" " + data:
            return Seam([], tokens, grown, len(begun))
        if not data.endswith(grown):  # The tokenizer has changed the text.
            break
        kept, forced = kept - 1, grown
    if not _is_whole(forced):
        return unhealed(tokens)
    return Seam(tokens[:kept], tokens[kept:], forced, len(forced.decode()))


def following(text: ChatText, tokens: list[int], rest: str) -> list[int] | None:
    """The tokens that spell `rest` after `tokens`, or None if the tokenizer cannot say it there."""
    whole = text.decode(tokens) + rest
    for lead in ("", "\n"):  # Some tokenizers put a space before the first word of a text.
        led = text.encode(lead)
        found = text.encode(lead + rest)
        if found[: len(led)] == led and text.decode([*tokens, *found[len(led) :]]) == whole:
            return found[len(led) :]
    return None


def unhealed(tokens: list[int]) -> Seam:
    """The seam behind whole tokens."""
    return Seam(tokens, [], b"", 0)


def _begins_word(data: bytes, end: bytes) -> bool:
    """Whether `end`, the end of a text, begins with the space before a word."""
    return end[:1].isspace() and not data[: -len(end)][-1:].isspace()


def _is_whole(end: bytes) -> bool:
    """Whether `end` begins with a whole character."""
    return not 0x80 <= end[0] < 0xC0 if end else True


class Spellings:
    """The tokens of a vocabulary, by the bytes that they spell. Special tokens spell nothing."""

    def __init__(self, text: ChatText, size: int) -> None:
        """`size`: number of tokens. It takes half a second for 150,000."""
        self._bytes = [b"" if text.is_special(token) else text.spelling(token)[1] for token in range(size)]
        self._sorted = sorted((spelt, token) for token, spelt in enumerate(self._bytes) if spelt)

    def after(self, forced: bytes, tokens: Iterable[int]) -> bytes:
        """What is left of `forced` after tokens that fit."""
        for token in tokens:
            forced = forced[len(self._bytes[token]) :]
        return forced

    def fitting(self, forced: bytes) -> NDArray[np.int64]:
        """The tokens that spell a beginning of `forced`, or all of it and more."""
        longer = self._range(forced, forced + LAST_BYTE)
        shorter = (self._range(forced[:size], forced[:size] + b"\0") for size in range(1, len(forced)))
        return np.array([self._sorted[at][1] for part in (*shorter, longer) for at in part], np.int64)

    def _range(self, first: bytes, end: bytes) -> range:
        return range(bisect_left(self._sorted, (first, -1)), bisect_left(self._sorted, (end, -1)))
