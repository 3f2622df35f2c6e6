"""Rows of the lists in `remotes.tcss`: details that keep their column when they are wrapped."""

from __future__ import annotations

from collections.abc import Iterable

from textual.content import Content

from app.tui.textual_private import wrap_offsets

MOST_WIDTH, SHARE, FRAME = 84, 96, 8
"""The panel's width in cells, its share of the screen in percent, and the cells of its border, padding and margins."""
SCROLL_BAR = 1
INDENT = 2


def below(name: Content, about: str, style: str, screen: int) -> Content:
    """A row with what is said `about` a name below it."""
    return Content("\n").join([name, *indented(wrapped([(about, style)], INDENT + SCROLL_BAR, screen), INDENT)])


def wrapped(lines: Iterable[tuple[str, str]], indent: int, screen: int) -> list[Content]:
    """Lines, each with its style, in pieces that fit beside this many cells. `screen`: its width in cells."""
    column = max(1, min(MOST_WIDTH, screen * SHARE // 100) - FRAME - indent)
    return [
        piece.rstrip()
        for line, style in lines
        for piece in Content.styled(line, style).divide(wrap_offsets(line, column))
    ]


def indented(pieces: Iterable[Content], indent: int) -> list[Content]:
    """Those pieces, each after this many cells, with spaces that wrapping does not drop."""
    return [Content("\N{NO-BREAK SPACE}" * indent) + piece for piece in pieces]
