"""The leaves of a text as rows of so many cells: wrapped, with what stands left of them.

Pure functions, so that a thread can wrap a long text: 100,000 characters take 100 ms.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, takewhile

from rich.cells import cell_len
from textual.content import Content

from app.tui.markdown.leaf import SEPARATOR, Leaf
from app.tui.markdown.parser import leaves
from app.tui.textual_private import wrap_offsets

GHOST = "dim"
CODE_PADDING = 2
TAB = 8
NARROW = 8
"""Cells below which no column of a table is squeezed; one that needs it is written without columns."""

Ranges = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Row:
    """One line on the screen."""

    left: Content
    pieces: tuple[tuple[int, Content, int], ...] = ()
    """Cells from the left edge of the text, the text, and its first character's place in its line."""
    y: int = 0
    """Its line, counted over the whole text; wrapping makes several rows of one line."""
    kind: str = ""
    """A component class for the whole row."""
    copy: int = 0
    """The number of the code block that a click on this row's end copies."""


@dataclass(frozen=True)
class Drawn:
    """A leaf as it is now: how much of it is ghost text, and its rows at one width."""

    leaf: Leaf
    ghost: int
    """Characters from which it is ghost text."""
    shaded: tuple[tuple[int, int], ...]
    """Characters that were never verified, where that is to be seen."""
    rows: tuple[Row, ...]
    y: int
    """The first of its lines, counted over the whole text."""
    lines: int
    """Lines of its text, one for a rule."""


@lru_cache(maxsize=64)
def finished_rows(text: str, width: int) -> tuple[Drawn, ...]:
    """A finished text, wrapped. A long one takes its time: call it in a thread first."""
    return tuple(wrap(leaves(text), width, solid=len(text)))


def wrap(
    parsed: Sequence[Leaf], width: int, *, solid: int, shaded: Ranges = (), known: Sequence[Drawn] = ()
) -> list[Drawn]:
    """The leaves of a text, of which `solid` characters are verified, as rows; those `known` at this width stay."""
    drawn: list[Drawn] = []
    y = 0
    for at, leaf in enumerate(parsed):
        ghost, marked = leaf.before(solid), tuple(inside(leaf, shaded)) if shaded else ()
        old = known[at] if at < len(known) and known[at].y == y else None
        if old is None or old.leaf is not leaf or (old.ghost, old.shaded) != (ghost, marked):
            rows, lines = _rows(leaf, ghost, marked, width, y, old)
            old = Drawn(leaf, ghost, marked, tuple(rows), y, lines)
        drawn.append(old)
        y += old.lines
    return drawn


def inside(leaf: Leaf, ranges: Ranges) -> Iterator[tuple[int, int]]:
    """The leaf's own characters of these parts of the text."""
    for start, end in ranges:
        if start < leaf.source[1] and end > leaf.source[0]:
            yield leaf.before(start), leaf.before(end)


def place_in(line: str, x: int) -> int:
    """Which character of a line stands at this place of its row, where tabs are spaces."""
    if "\t" not in line:
        return x
    place = column = 0
    for at, char in enumerate(line):
        cells = TAB - column % TAB if char == "\t" else cell_len(char)
        place, column = place + (cells if char == "\t" else 1), column + cells
        if place > x:
            return at
    return len(line)


def _rows(
    leaf: Leaf, ghost: int, shaded: tuple[tuple[int, int], ...], width: int, y: int, old: Drawn | None
) -> tuple[list[Row], int]:
    content = leaf.content
    for start, end in shaded:
        content = content.stylize(".unverified", start, end)
    if ghost < len(content.plain):
        content = content.stylize(GHOST, ghost)
    first = leaf.first.stylize(GHOST) if not ghost and content.plain else leaf.first
    room = max(1, width - first.cell_length)
    rows = [Row(leaf.rest if leaf.rest.plain.strip() else Content(""))] if leaf.gap else []
    if leaf.kind == "rule":
        return [*rows, Row(first, y=y, kind="rule")], 1
    if leaf.kind in ("row", "head"):
        return [*rows, *_table_rows(leaf, content, room, y)], 1
    if leaf.kind == "code":
        plain = not shaded and not leaf.content.spans
        return _code_rows(rows, leaf, content, first, room, y, ghost, old if plain else None)
    lines = _lines(content)
    for number, line in enumerate(lines):
        for x, piece in _wrapped(line, room):
            left = leaf.rest if rows and rows[-1].pieces else first
            rows.append(Row(left, ((0, piece, x),), y + number))
    return rows, len(lines)


def _code_rows(
    rows: list[Row], leaf: Leaf, content: Content, first: Content, room: int, y: int, ghost: int, old: Drawn | None
) -> tuple[list[Row], int]:
    """Those of a code block; of one that grows only the lines are wrapped that are new."""
    rows.append(Row(first, kind="code", copy=leaf.number))
    known = 0
    if old is not None and (same := _same_lines(old, leaf, ghost)):
        known = content.plain.count("\n", 0, same)
        rows = list(takewhile(lambda row: not row.pieces or row.y < y + known, old.rows))
        content = Content(content.plain[same:]).stylize(GHOST, max(0, ghost - same))
    lines = _lines(content)
    for number, line in enumerate(lines, known):
        for x, piece in _wrapped(line, max(1, room - 2 * CODE_PADDING)):
            rows.append(Row(leaf.rest, ((CODE_PADDING, piece, x),), y + number, "code"))
    return [*rows, Row(leaf.rest, kind="code")], known + len(lines)


def _same_lines(old: Drawn, leaf: Leaf, ghost: int) -> int:
    """Characters of the complete lines that a growing code block begins with, drawn already and not as ghost text."""
    before, after = old.leaf, leaf
    if before.content.spans or old.shaded or (before.kind, before.number) != (after.kind, after.number):
        return 0
    if before.gap != after.gap or not (before.first.is_same(after.first) and before.rest.is_same(after.rest)):
        return 0
    lines = before.content.plain.rfind("\n", 0, min(old.ghost, ghost)) + 1
    return lines if after.content.plain.startswith(before.content.plain[:lines]) else 0


def _lines(content: Content) -> list[Content]:
    lines = content.split("\n", allow_blank=True) if "\n" in content.plain else [content]
    return [line.expand_tabs(TAB) if "\t" in line.plain else line for line in lines]


def _wrapped(line: Content, width: int) -> Iterator[tuple[int, Content]]:
    """The pieces of a line that fit into so many cells, each with its first character's place."""
    plain = line.plain
    if len(plain) <= width and (plain.isascii() or line.cell_length <= width):
        yield 0, line
        return
    x = 0
    cuts = wrap_offsets(plain, width)
    for piece in line.divide(cuts):
        yield x, piece.rstrip() if piece.cell_length > width else piece
        x += len(piece.plain)


def _table_rows(leaf: Leaf, content: Content, width: int, y: int) -> Iterator[Row]:
    """The cells of one row beside each other, wrapped where the table is too wide; in one line where that is no use."""
    kind = "head" if leaf.kind == "head" else ""
    widths = _fitted(leaf.widths, width - len(SEPARATOR) * (len(leaf.widths) - 1))
    if widths is None:
        for number, (x, piece) in enumerate(_wrapped(content, width)):
            yield Row(leaf.rest if number else leaf.first, ((0, piece, x),), y, kind)
        return
    starts = [0, *accumulate(length + len(SEPARATOR) for length in leaf.cells)]
    cells = [content[start : start + length] for start, length in zip(starts, leaf.cells)]
    columns = [
        [(start + at, piece) for at, piece in _wrapped(cell, max(1, cell_width))]
        for start, cell, cell_width in zip(starts, cells, widths)
    ]
    bar = Content.styled(SEPARATOR, ".rule")
    for line in range(max((len(column) for column in columns), default=0)):
        pieces: list[tuple[int, Content, int]] = []
        left = 0
        for number, (column, cell_width) in enumerate(zip(columns, widths)):
            if line < len(column):
                pieces.append((left, column[line][1], column[line][0]))
            left += cell_width
            if number < len(widths) - 1:
                pieces.append((left, bar, column[0][0] + len(cells[number].plain)))
                left += len(SEPARATOR)
        yield Row(leaf.first if line == 0 else leaf.rest, tuple(pieces), y, kind)


@lru_cache(maxsize=64)
def _fitted(widths: tuple[int, ...], room: int) -> tuple[int, ...] | None:
    """The widths of a table's columns with the widest ones squeezed; None where that leaves too little of them."""
    most = max(widths, default=0)
    while sum(min(width, most) for width in widths) > room:
        most -= 1
        if most < NARROW:
            return None
    left = room - sum(min(width, most) for width in widths)
    wide = [at for at, width in enumerate(widths) if width > most]
    wider = set(wide[len(wide) - left :]) if left < len(wide) else set(wide)
    return tuple(min(width, most) + (at in wider) for at, width in enumerate(widths))
