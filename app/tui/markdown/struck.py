"""Dropped text, struck through at its place in the text that replaced it.

In prose it is within the line. In code, whole lines are above the line that replaced them, as in a diff, so that no
line mixes both. Struck text is not part of the text: it is neither copied, nor selected, nor counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from textual.content import Content

from app.tui.markdown.layout import CODE_PADDING, NO_PLACE, Row, WrappedLeaf, lines_of, margins, wrap, wrap_line
from app.tui.markdown.leaf import Leaf
from app.tui.markdown.parser import leaves

STYLE = ".dropped"
MARKS = ".dropped_marks"
Pieces = tuple[tuple[int, Content, int], ...]


@dataclass(frozen=True)
class Struck:
    """Dropped text. `at`: its offset in the new text; `text`: its Markdown."""

    at: int
    text: str


def strike(drawn: Sequence[WrappedLeaf], struck: Struck, width: int) -> list[WrappedLeaf]:
    """The wrapped leaves of a finished text, with the dropped text among their rows."""
    dropped = leaves(struck.text)
    if not dropped or not drawn:
        return list(drawn)
    at = next((n for n, one in enumerate(drawn) if struck.at <= one.leaf.source[1]), len(drawn) - 1)
    one = drawn[at]
    before = one.leaf.characters_before(struck.at)
    if before and one.leaf.kind == "prose" and dropped[0].kind == "prose" and not dropped[0].first.plain:
        rows = [*_within_prose(one, before, dropped[0].content, width), *_blocks(dropped[1:], width)]
    elif before and one.leaf.kind == "code":
        code, rest = (dropped[0].content.plain, dropped[1:]) if dropped[0].kind == "code" else (struck.text, ())
        rows = [*_within_code(one, before, code, width), *_blocks(rest, width)]
    elif struck.at < one.leaf.source[1]:
        gap = [Row(Content(""))]
        rows = [*gap * one.leaf.gap, *_blocks(dropped, width), *gap * (not one.leaf.gap and not at), *one.rows]
    else:
        rows = [*one.rows, Row(Content("")), *_blocks(dropped, width)]
    return [*drawn[:at], replace(one, rows=tuple(rows)), *drawn[at + 1 :]]


def _within_prose(drawn: WrappedLeaf, before: int, dropped: Content, width: int) -> Iterator[Row]:
    """The rows of a paragraph with dropped words within one of its lines."""
    leaf = drawn.leaf
    words = Content(" ".join(dropped.plain.split())).stylize(STYLE)
    line_number = leaf.content.plain.count("\n", 0, before)
    inside = before - (leaf.content.plain.rfind("\n", 0, before) + 1)
    lead = list(takewhile(lambda row: not row.pieces, drawn.rows))
    tail = list(takewhile(lambda row: not row.pieces, reversed(drawn.rows)))[::-1]
    yield from lead
    first, rest = margins(leaf, width)
    for number, line in enumerate(lines_of(leaf.content)):
        room = max(1, width - first.cell_length)
        plain: Iterator[Pieces] = (((0, piece, x),) for x, piece in wrap_line(line, room))
        for row in plain if number != line_number else _mixed(line, inside, words, room):
            yield Row(first, row, drawn.y + number)
            first = rest
    yield from tail


def _mixed(line: Content, at: int, words: Content, width: int) -> Iterator[Pieces]:
    """The pieces of each row of a line that has struck words at one place."""
    left, right = line[:at], line[at:]
    space = Content(" ")
    apart_left = space if left.plain and not left.plain[-1].isspace() else Content("")
    apart_right = space if right.plain and not right.plain[0].isspace() else Content("")
    whole = Content("").join([left, apart_left, words, apart_right, right])
    begin, end = at, at + len(apart_left) + len(words) + len(apart_right)
    for x, piece in wrap_line(whole, width):
        row: list[tuple[int, Content, int]] = []
        distance = 0
        for start, stop, moved in ((0, begin, 0), (begin, end, None), (end, len(whole), end - begin)):
            part = piece[max(0, start - x) : max(0, stop - x)]
            if part.plain:
                row.append((distance, part, NO_PLACE if moved is None else max(start, x) - moved))
                distance += part.cell_length
        yield tuple(row) or ((0, Content(""), x),)


def _within_code(drawn: WrappedLeaf, before: int, dropped: str, width: int) -> Iterator[Row]:
    """The rows of a code block, with the dropped lines above the line that replaced them."""
    leaf = drawn.leaf
    code = leaf.content.plain
    begin = code.rfind("\n", 0, before) + 1
    line = drawn.y + code.count("\n", 0, before)
    _, rest = margins(leaf, width)
    room = max(1, width - rest.cell_length - 2 * CODE_PADDING)
    lines = f"{code[begin:before]}{dropped}".rstrip("\n").split("\n")
    struck = [
        Row(rest, ((CODE_PADDING, piece, NO_PLACE),), line, "code")
        for one in lines
        for _, piece in wrap_line(Content(one).expand_tabs(8).stylize(STYLE), room)
    ]
    told = False
    for row in drawn.rows:
        if row.kind == "code" and row.y == line and not told:
            told = True
            yield from struck
        yield row


def _blocks(dropped: Sequence[Leaf], width: int) -> Iterator[Row]:
    """The rows of whole blocks that were dropped."""
    for one in wrap(dropped, width, solid=dropped[-1].source[1]) if dropped else ():
        for row in one.rows:
            if row.kind == "code_head":
                continue
            pieces = tuple((start, Content(piece.plain).stylize(STYLE), NO_PLACE) for start, piece, _ in row.pieces)
            yield Row(row.left.stylize(MARKS) if row.left.plain.strip() else row.left, pieces, row.y, row.kind)
