"""Wraps the leaves of a text into rows for a given width in cells.

All functions are pure, so that a thread can wrap a long text: 100,000 characters take 100 ms.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate, takewhile

from rich.cells import cell_len
from textual.content import Content

from app.tui.markdown.leaf import SEPARATOR, Leaf
from app.tui.markdown.notes import NO_BLOCK_NOTES, NO_NOTES, AnswerNotes, BlockNotes, NoteLine, wrap_note
from app.tui.markdown.parser import leaves
from app.tui.textual_private import wrap_offsets

GHOST = ".ghost"
CODE_PADDING = 2
COPY_LABEL = 8
"""Cells at the end of a code block's head, reserved for its copy label."""
TAB = 8
NO_PLACE = -1
"""The place of a piece that does not belong to the text."""
NARROW = 8
"""The smallest width of a squeezed column, in cells; a table that needs less is written without columns."""

Ranges = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Row:
    left: Content
    """The marks at the left: bullets and the bars of quotes."""
    pieces: tuple[tuple[int, Content, int], ...] = ()
    """Pieces of text: the distance from `left` in cells, the text, and the place of its first character in its line, or
    `NO_PLACE`."""
    y: int = 0
    """The number of its line in the whole text; a long line makes several rows."""
    kind: str = ""
    """The component class of the whole row."""
    copy: int = 0
    """The number of the code block that this row heads (a click at its end copies the block), or 0."""
    info: str = ""
    """Text in the head of a code block: the language, and the rest of the fence's info string."""

    @property
    def place(self) -> int | None:
        """The place of its first character in its line; None if it shows nothing of the text."""
        return next((x for _, _, x in self.pieces if x != NO_PLACE), None)


@dataclass(frozen=True)
class WrappedLeaf:
    leaf: Leaf
    ghost: int
    """The first character that is ghost text."""
    shaded: tuple[tuple[int, int], ...]
    """Ranges of characters to be marked as unverified."""
    notes: BlockNotes
    footer: tuple[NoteLine, ...]
    """The notes of the whole text, drawn below its last leaf."""
    rows: tuple[Row, ...]
    y: int
    """The number of its first line in the whole text."""
    lines: int
    """The number of its lines; 1 for a rule."""


@lru_cache(maxsize=64)
def wrap_finished(text: str, width: int, notes: AnswerNotes = NO_NOTES) -> tuple[WrappedLeaf, ...]:
    """Wraps a finished text, and caches the result. Call this first in a thread if the text is long."""
    return tuple(wrap(leaves(text), width, solid=len(text), notes=notes))


def wrap(
    parsed: Sequence[Leaf],
    width: int,
    *,
    solid: int,
    shaded: Ranges = (),
    notes: AnswerNotes = NO_NOTES,
    known: Sequence[WrappedLeaf] = (),
) -> list[WrappedLeaf]:
    """Wraps leaves, reusing unchanged ones from `known`, which must have the same width.

    `solid`: characters of the text that are verified; the rest is ghost text. `shaded`: ranges of the text that are
    marked as unverified.
    """
    drawn: list[WrappedLeaf] = []
    y = 0
    for at, leaf in enumerate(parsed):
        ghost, marked = leaf.characters_before(solid), tuple(ranges_in(leaf, shaded)) if shaded else ()
        noted = notes.by_number.get(leaf.number, NO_BLOCK_NOTES)
        footer = notes.footer if at == len(parsed) - 1 else ()
        old = known[at] if at < len(known) and known[at].y == y else None
        if old is None or old.leaf is not leaf or _state(old) != (ghost, marked, noted, footer):
            rows, lines = _rows(leaf, ghost, marked, noted.marks, width, y, old)
            gap = [Row(Content(""))] if footer and not noted.lines else []
            _, rest = margins(leaf, width)
            rows += [Row(left) for line in noted.lines for left in wrap_note(line, rest, width)]
            rows += gap + [Row(left) for line in footer for left in wrap_note(line, Content(""), width)]
            old = WrappedLeaf(leaf, ghost, marked, noted, footer, tuple(rows), y, lines)
        drawn.append(old)
        y += old.lines
    return drawn


def _state(drawn: WrappedLeaf) -> tuple[object, ...]:
    """Everything but the leaf and the width that determines how a leaf looks."""
    return drawn.ghost, drawn.shaded, drawn.notes, drawn.footer


def margins(leaf: Leaf, width: int) -> tuple[Content, Content]:
    """The marks left of the leaf's first line and of the others.

    Of deeply nested ones only the inner half is kept, so that words fit.
    """
    room = max(1, width // 2)
    if leaf.first.cell_length <= room:
        return leaf.first, leaf.rest
    inner = [marks[len(marks) - room + 1 :] for marks in (leaf.first, leaf.rest)]
    return Content.assemble(("…", ".quote"), inner[0]), Content.assemble(" ", inner[1])


def ranges_in(leaf: Leaf, ranges: Ranges) -> Iterator[tuple[int, int]]:
    """Converts ranges of the text to ranges of the leaf's characters, and leaves out those outside of the leaf."""
    for start, end in ranges:
        if start < leaf.source[1] and end > leaf.source[0]:
            yield leaf.characters_before(start), leaf.characters_before(end)


def character_at(line: str, x: int) -> int:
    """The index of the character of `line` that is drawn in column `x`, where tabs are drawn as spaces."""
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
    leaf: Leaf,
    ghost: int,
    shaded: tuple[tuple[int, int], ...],
    marks: tuple[tuple[int, int, str], ...],
    width: int,
    y: int,
    old: WrappedLeaf | None,
) -> tuple[list[Row], int]:
    content = leaf.content
    for start, end, style in marks:
        content = content.stylize(style, start, end)
    for start, end in shaded:
        content = content.stylize(".unverified", start, end)
    if ghost < len(content.plain):
        content = content.stylize(GHOST, ghost)
    first, rest = margins(leaf, width)
    leaf = replace(leaf, first=first.stylize(GHOST) if not ghost and content.plain else first, rest=rest)
    first = leaf.first
    room = max(1, width - first.cell_length)
    rows = [Row(rest if rest.plain.strip() else Content(""))] if leaf.gap else []
    if leaf.kind == "rule":
        return [*rows, Row(first, y=y, kind="rule")], 1
    if leaf.kind in ("row", "head"):
        return [*rows, *_table_rows(leaf, content, room, y)], 1
    if leaf.kind == "code":
        plain = not shaded and not marks and not leaf.content.spans
        return _code_rows(rows, leaf, content, first, room, y, ghost, old if plain else None)
    lines = lines_of(content)
    for number, line in enumerate(lines):
        for x, piece in wrap_line(line, room):
            left = leaf.rest if rows and rows[-1].pieces else first
            rows.append(Row(left, ((0, piece, x),), y + number))
    return rows, len(lines)


def _code_rows(
    rows: list[Row],
    leaf: Leaf,
    content: Content,
    first: Content,
    room: int,
    y: int,
    ghost: int,
    old: WrappedLeaf | None,
) -> tuple[list[Row], int]:
    """The rows of a code block; of a block that has grown, only the new lines are wrapped."""
    fits = cell_len(leaf.info) <= room - CODE_PADDING - COPY_LABEL
    rows.append(Row(first, kind="code_head", copy=leaf.number, info=leaf.info if fits else ""))
    for _, piece in () if fits else wrap_line(Content(leaf.info), max(1, room - 2 * CODE_PADDING)):
        rows.append(Row(leaf.rest, ((CODE_PADDING, piece, NO_PLACE),), y, "code_head"))
    known = 0
    if old is not None and (same := _unchanged_characters(old, leaf, ghost)):
        known = content.plain.count("\n", 0, same)
        rows = list(takewhile(lambda row: not row.pieces or row.y < y + known, old.rows))
        content = Content(content.plain[same:]).stylize(GHOST, max(0, ghost - same))
    lines = lines_of(content)
    for number, line in enumerate(lines, known):
        for x, piece in wrap_line(line, max(1, room - 2 * CODE_PADDING)):
            rows.append(Row(leaf.rest, ((CODE_PADDING, piece, x),), y + number, "code"))
    return rows, known + len(lines)


def _unchanged_characters(old: WrappedLeaf, leaf: Leaf, ghost: int) -> int:
    """Count the characters in the leading lines of a growing code block that look as before."""
    before, after = old.leaf, leaf
    if before.content.spans or old.shaded or old.notes.lines or old.footer:
        return 0
    if (before.kind, before.number) != (after.kind, after.number):
        return 0
    if before.gap != after.gap or not (before.first.is_same(after.first) and before.rest.is_same(after.rest)):
        return 0
    lines = before.content.plain.rfind("\n", 0, min(old.ghost, ghost)) + 1
    return lines if after.content.plain.startswith(before.content.plain[:lines]) else 0


def lines_of(content: Content) -> list[Content]:
    """The lines of a text, with spaces for its tabs."""
    lines = content.split("\n", allow_blank=True) if "\n" in content.plain else [content]
    return [line.expand_tabs(TAB) if "\t" in line.plain else line for line in lines]


def wrap_line(line: Content, width: int) -> Iterator[tuple[int, Content]]:
    """Cuts a line into pieces that fit into `width` cells; each with the place of its first character."""
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
    """Lay out a row's cells side by side, wrapped if necessary, or as one text if columns would get too narrow."""
    kind = "head" if leaf.kind == "head" else ""
    widths = _fit_columns(leaf.widths, width - len(SEPARATOR) * (len(leaf.widths) - 1))
    if widths is None:
        for number, (x, piece) in enumerate(wrap_line(content, width)):
            yield Row(leaf.rest if number else leaf.first, ((0, piece, x),), y, kind)
        return
    starts = [0, *accumulate(length + len(SEPARATOR) for length in leaf.cells)]
    cells = [content[start : start + length] for start, length in zip(starts, leaf.cells)]
    columns = [
        [(start + at, piece) for at, piece in wrap_line(cell, max(1, cell_width))]
        for start, cell, cell_width in zip(starts, cells, widths)
    ]
    bar = Content.styled(SEPARATOR, ".rule")
    for line in range(max((len(column) for column in columns), default=0)):
        pieces: list[tuple[int, Content, int]] = []
        left = 0
        for number, (column, cell_width, align) in enumerate(zip(columns, widths, leaf.aligns)):
            if line < len(column):
                x, piece = column[line]
                spare = max(0, cell_width - piece.cell_length)
                pieces.append((left + {"right": spare, "center": spare // 2}.get(align, 0), piece, x))
            left += cell_width
            if number < len(widths) - 1:
                pieces.append((left, bar, column[0][0] + len(cells[number].plain)))
                left += len(SEPARATOR)
        yield Row(leaf.first if line == 0 else leaf.rest, tuple(pieces), y, kind)


@lru_cache(maxsize=64)
def _fit_columns(widths: tuple[int, ...], room: int) -> tuple[int, ...] | None:
    """The widths of a table's columns with the widest ones squeezed to fit; None if they get narrower than `NARROW`."""
    most = max(widths, default=0)
    while sum(min(width, most) for width in widths) > room:
        most -= 1
        if most < NARROW:
            return None
    left = room - sum(min(width, most) for width in widths)
    wide = [at for at, width in enumerate(widths) if width > most]
    wider = set(wide[len(wide) - left :]) if left < len(wide) else set(wide)
    return tuple(min(width, most) + (at in wider) for at, width in enumerate(widths))
