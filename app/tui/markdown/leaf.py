"""A leaf of an answer's Markdown: a flat run of styled text that a widget can wrap and draw line by line.

One widget for each block, as Textual's own Markdown has it, costs 40 ms for an answer of a dozen lines; leaves cost one
widget for all of it. They also know where in the source each character came from, so that ghost text and provenance are
shaded to the character.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from textual.content import Content

from app.tui.markdown.blocks import split

Kind = Literal["prose", "code", "row", "head", "rule"]
SEPARATOR = " │ "
"""Between the cells of a table's row."""


@dataclass(frozen=True)
class Leaf:
    """A paragraph, heading, code block, row of a table or rule, with what stands left of it."""

    kind: Kind
    content: Content
    """Of a table's row: its cells, with `SEPARATOR` between."""
    first: Content = Content("")
    """Left of its first line: bullets and the bars of quotes."""
    rest: Content = Content("")
    """Left of all others; as wide."""
    gap: bool = True
    """A blank line before it."""
    source: tuple[int, int] = (0, 0)
    """The lines that it was made of, as characters of the text."""
    text: str = field(default="", repr=False)
    """Those lines."""
    number: int = 0
    """Of a code block: its place among the answer's, from 1."""
    cells: tuple[int, ...] = ()
    """Of a table's row: the characters of each cell."""
    widths: tuple[int, ...] = ()
    """Of a table's row: the columns' widths, in cells."""

    @cached_property
    def offsets(self) -> list[int]:
        """For each character of the content, where in the text it begins; never decreasing."""
        start = self.source[0]
        return _code_offsets(self, start) if self.kind == "code" else _prose_offsets(self, start)

    def same(self, other: Leaf) -> bool:
        """Whether it looks the same, too: two `Content`s of the same text are equal, whatever their styles are."""
        return self is other or (self == other and self.content.spans == other.content.spans)

    def before(self, offset: int) -> int:
        """How many of its characters come from before this place of the text."""
        if offset >= self.source[1]:
            return len(self.content.plain)
        return 0 if offset <= self.source[0] else bisect_left(self.offsets, offset)


def _prose_offsets(leaf: Leaf, start: int) -> list[int]:
    offsets, at = [], 0
    for char in leaf.content.plain:
        found = -1 if char.isspace() or char == "│" else leaf.text.find(char, at)
        at = found if found >= 0 else at
        offsets.append(start + at)
        at += found >= 0
    return offsets


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
