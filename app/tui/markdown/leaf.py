"""A leaf of an answer's Markdown: a flat run of styled text that a widget can wrap and draw line by line.

Textual's own Markdown makes a widget for each block, which takes 40 ms for an answer of twelve lines. One widget draws
all leaves of an answer. A leaf also knows where in the source each of its characters began, so that ghost text and
unverified text are marked to the character.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

from textual.content import Content

from app.tui.markdown.blocks import split

Kind = Literal["prose", "code", "row", "head", "rule"]
SEPARATOR = " │ "
"""Separates the cells of a table's row."""


class Formula(NamedTuple):
    """A formula that is drawn: its characters in the content, and how it was written."""

    start: int
    end: int
    source: str


@dataclass(frozen=True)
class Leaf:
    """A paragraph, heading, code block, row of a table or rule, with the marks at its left."""

    kind: Kind
    content: Content
    """The styled text; for a table's row its cells, with `SEPARATOR` between them."""
    first: Content = Content("")
    """Marks left of the first line: bullets and the bars of quotes."""
    rest: Content = Content("")
    """Marks left of all other lines, as wide as `first`."""
    gap: bool = True
    """Whether a blank line precedes it."""
    source: tuple[int, int] = (0, 0)
    """Start and end of its lines in the text, in characters."""
    text: str = field(default="", repr=False)
    """Its lines as they were written."""
    number: int = 0
    """The place of a code block among those of the answer, from 1; 0 for other leaves."""
    language: str = ""
    """The language that the fence of a code block names; "" if it names none."""
    info: str = ""
    """The info string of the fence: the language, and anything after it."""
    cells: tuple[int, ...] = ()
    """The number of characters in each cell of a table's row."""
    widths: tuple[int, ...] = ()
    """The widths of the table's columns, in cells of the screen."""
    aligns: tuple[str, ...] = ()
    """For each of the table's columns `left`, `right`, `center` or ""."""
    formulas: tuple[Formula, ...] = ()
    """The formulas that are drawn otherwise than written, in order."""

    @cached_property
    def offsets(self) -> list[int]:
        """The place in the text at which each character of the content begins; never decreasing."""
        start = self.source[0]
        return _code_offsets(self, start) if self.kind == "code" else _prose_offsets(self, start)

    def looks_like(self, other: Leaf) -> bool:
        """Whether both have the same text and styles: `Content` compares only the text."""
        return self is other or (self == other and self.content.spans == other.content.spans)

    def characters_before(self, offset: int) -> int:
        """The number of its characters that come from before this offset in the text."""
        if offset >= self.source[1]:
            return len(self.content.plain)
        return 0 if offset <= self.source[0] else bisect_left(self.offsets, offset)


def _prose_offsets(leaf: Leaf, start: int) -> list[int]:
    offsets, at = list[int](), 0
    for formula in leaf.formulas:
        at = _find(leaf, start, at, len(offsets), formula.start, offsets)
        begin, end = _place(leaf.text, formula.source, at)
        length = formula.end - formula.start
        # A drawn character belongs to none of the source, so they are spread over what is between the marks.
        inner = start + begin + min(2, end - begin)
        offsets += (inner + max(0, end - begin - 4) * n // length for n in range(length))
        at = end
    _find(leaf, start, at, len(offsets), len(leaf.content.plain), offsets)
    return offsets


def _find(leaf: Leaf, start: int, at: int, first: int, last: int, offsets: list[int]) -> int:
    """Appends the places of the characters from `first` to `last`, from `at` on; returns where the last one ends."""
    for char in leaf.content.plain[first:last]:
        found = -1 if char.isspace() or char == "│" else leaf.text.find(char, at)
        at = found if found >= 0 else at
        offsets.append(start + at)
        at += found >= 0
    return at


def _place(text: str, source: str, at: int) -> tuple[int, int]:
    """Start and end of a formula in the lines of its leaf, where marks of quotes may begin each of its lines."""
    lines = [line for line in map(str.strip, source.split("\n")) if line]
    begin = end = -1
    for line in lines:
        if (found := text.find(line, max(at, end))) >= 0:
            begin, end = found if begin < 0 else begin, found + len(line)
    return (at, at) if begin < 0 else (begin, end)


def _code_offsets(leaf: Leaf, start: int) -> list[int]:
    source = leaf.text.split("\n")
    fenced = bool(blocks := split(leaf.text)) and blocks[0].fenced
    at = start + (len(source.pop(0)) + 1 if fenced else 0)
    offsets: list[int] = []
    for code, line in zip(leaf.content.plain.split("\n"), source):
        indent = max(0, len(line) - len(code))
        offsets += range(at + indent, at + indent + len(code) + 1)
        at += len(line) + 1
    return offsets[: len(leaf.content.plain)]
