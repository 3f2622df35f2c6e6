"""Markdown in one widget, drawn line by line: a whole answer, or one that grows.

What stands still is wrapped once for a width and drawn when it comes into view. What grows is parsed again from its
last block on, and asks for a layout only when it has become taller.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, zip_longest

from rich._wrap import divide_line
from rich.segment import Segment
from textual.content import Content
from textual.geometry import Region, Size
from textual.selection import Selection
from textual.strip import Strip
from textual.style import Style
from textual.widget import Widget

from app.tui.blocks import closed_length
from app.tui.markdown import SEPARATOR, Leaf, coloured, completed, leaves, parse
from app.tui.widgets.lines import Lines

GHOST = "dim"
WAITING = "…"
COPY = "copy"
CODE_PADDING = 2


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
    lines: int
    """Lines of its text, one for a rule."""


class Prose(Widget):
    """Shows a text; `.link` and `.copy` parts can be clicked."""

    ALLOW_SELECT = True
    COMPONENT_CLASSES = {
        "bullet",
        "code",
        "code_inline",
        "copy",
        "em",
        "head",
        "heading",
        "quote",
        "rule",
        "s",
        "strong",
        "title",
        "unverified",
    }

    def __init__(self, text: str = "", classes: str | None = None) -> None:
        super().__init__(classes=classes)
        self._styles_cache = Lines()
        self.source = text
        """The text as it was written."""
        self.parsed = list(leaves(text)) if text else []
        self.growing = not text
        """It is not known yet that this is all."""
        self._final = len(self.parsed)
        self._final_to = len(text)
        """Up to this place, and this leaf, nothing can change any more."""
        self._solid = len(text)
        self._shaded: tuple[tuple[int, int], ...] = ()
        self._drawn: list[Drawn] = []
        self._tops: list[int] = [0]
        self._width = 0

    # ---- what is shown -----------------------------------------------------------------------------------------------

    async def prepare(self, text: str) -> None:
        """Highlights the code blocks that are complete in a growing text, in a thread; `grow` takes them from there."""
        part = text[: self._final_to + closed_length(text[self._final_to :])]
        if "```" in part[self._final_to :] or "~~~" in part[self._final_to :]:
            for leaf in parse(part, self._final_to)[0]:
                if leaf.kind == "code":
                    await asyncio.to_thread(coloured, leaf)

    def grow(self, text: str, solid: int) -> None:
        """Shows a growing text, of which the first `solid` characters are verified and will stay."""
        if not text.startswith(self.source[: self._final_to]):
            self._final = self._final_to = 0
        known, start = self.parsed[: self._final], self._final_to
        code = sum(leaf.kind == "code" for leaf in known)
        complete = start + closed_length(text[start:])
        closed = start + closed_length(text[start:solid])
        if closed > start:
            fresh, last = parse(text[:closed], start, code)
            fresh = [coloured(leaf) for leaf in fresh if leaf.source[0] < last]
            known += fresh
            self._final, self._final_to = len(known), last
            code += sum(leaf.kind == "code" for leaf in fresh)
        growing, _ = parse(completed(text), self._final_to, code)
        known += [coloured(leaf) if leaf.source[1] <= complete else leaf for leaf in growing]
        self.parsed = self._known(known)
        self.source, self._solid, self.growing = text, solid, True
        self._redraw()

    def finish(self, text: str) -> None:
        """Shows a text that will not change any more."""
        self.source, self._solid, self.growing = text, len(text), False
        self.parsed = self._known(leaves(text))
        self._final, self._final_to = len(self.parsed), len(text)
        self._redraw()

    def _known(self, fresh: Sequence[Leaf]) -> list[Leaf]:
        """The same leaves; those that were there already as the same objects, so that they are not wrapped again."""
        return [old if old == new else new for old, new in zip_longest(self.parsed[: len(fresh)], fresh)]

    def shade(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Marks these parts of the text, which nobody has verified."""
        if tuple(ranges) != self._shaded:
            self._shaded = tuple(ranges)
            self._redraw()

    @property
    def plain(self) -> str:
        """What is to be read, without wrapping."""
        return "\n".join(f"{leaf.first.plain}{leaf.content.plain}" for leaf in self.parsed)

    @property
    def ghost(self) -> str:
        """What of it is ghost text."""
        return "".join(leaf.content.plain[leaf.before(self._solid) :] for leaf in self.parsed)

    @property
    def shaded(self) -> str:
        """What of it is marked as not verified."""
        spans = [(leaf, span) for leaf in self.parsed for span in self._inside(leaf)]
        return "".join(leaf.content.plain[start:end] for leaf, (start, end) in spans)

    # ---- rows --------------------------------------------------------------------------------------------------------

    def _redraw(self) -> None:
        before, heights = self._drawn, self._tops[-1]
        self._lay_out(self._width)
        if self._tops[-1] != heights:
            self.refresh(layout=True)
        else:
            same = next((at for at, (a, b) in enumerate(zip(before, self._drawn)) if a is not b), None)
            if same is not None:
                top = self._tops[same]
                self.refresh(Region(0, top, self.size.width, max(1, self._tops[-1] - top)))

    def _lay_out(self, width: int) -> None:
        """Wraps what has changed since the last time, all of it where the width has."""
        if not width:
            return
        known = self._drawn if width == self._width else []
        drawn: list[Drawn] = []
        y = 0
        for at, leaf in enumerate(self.parsed):
            ghost = leaf.before(self._solid)
            shaded = tuple(self._inside(leaf))
            old = known[at] if at < len(known) else None
            same = old is not None and old.leaf is leaf and (old.ghost, old.shaded) == (ghost, shaded)
            if old is None or not same:
                rows, lines = self._rows(leaf, ghost, shaded, width, y)
                old = Drawn(leaf, ghost, shaded, tuple(rows), lines)
            drawn.append(old)
            y += old.lines
        self._drawn, self._width = drawn, width
        self._tops = [0, *accumulate(len(one.rows) for one in drawn)]

    def _inside(self, leaf: Leaf) -> Iterator[tuple[int, int]]:
        for start, end in self._shaded:
            if start < leaf.source[1] and end > leaf.source[0]:
                yield leaf.before(start), leaf.before(end)

    def _rows(
        self, leaf: Leaf, ghost: int, shaded: tuple[tuple[int, int], ...], width: int, y: int
    ) -> tuple[list[Row], int]:
        content = leaf.content
        for start, end in shaded:
            content = content.stylize(".unverified", start, end)
        if ghost < len(content.plain):
            content = content.stylize(GHOST, ghost)
        first = leaf.first.stylize(GHOST) if not ghost and content.plain else leaf.first
        indent = first.cell_length
        room = max(1, width - indent)
        rows = [Row(leaf.rest if leaf.rest.plain.strip() else Content(""))] if leaf.gap else []
        if leaf.kind == "rule":
            return [*rows, Row(first, y=y, kind="rule")], 1
        if leaf.kind in ("row", "head"):
            return [*rows, *_table_rows(leaf, content, room, y)], 1
        code = leaf.kind == "code"
        margin = CODE_PADDING if code else 0
        kind = "code" if code else ""
        if code:
            rows.append(Row(first, kind=kind, copy=leaf.number))
        lines = list(content.split("\n", allow_blank=True)) if "\n" in content.plain else [content]
        for number, line in enumerate(lines):
            line = line.expand_tabs(8) if "\t" in line.plain else line
            for x, piece in _wrapped(line, max(1, room - 2 * margin)):
                left = leaf.rest if rows and rows[-1].pieces or code else first
                rows.append(Row(left, ((margin, piece, x),), y + number, kind))
        if code:
            rows.append(Row(leaf.rest, kind=kind))
        return rows, len(lines)

    # ---- what Textual asks for ---------------------------------------------------------------------------------------

    def get_content_width(self, container: Size, viewport: Size) -> int:
        return container.width

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        if width != self._width:
            self._lay_out(width)
        return self._tops[-1]

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        style = self.visual_style
        if width != self._width:
            self._lay_out(width)
        if y >= self._tops[-1]:
            return Strip.blank(width, style.rich_style)
        at = bisect_right(self._tops, y) - 1
        row = self._drawn[at].rows[y - self._tops[at]]
        return self._strip(row, width, style)

    def _strip(self, row: Row, width: int, style: Style) -> Strip:
        segments: list[Segment] = []
        cells = self._add(segments, row.left, style)
        inner = self.get_visual_style(row.kind) if row.kind else style
        indent = cells
        selection = self.text_selection
        span = None if selection is None else selection.get_span(row.y)
        for start, piece, x in row.pieces:
            segments.append(Segment(" " * (indent + start - cells), inner.rich_style))
            if span is not None:
                begin, end = span[0] - x, len(piece.plain) if span[1] == -1 else span[1] - x
                if end > 0 and begin < len(piece.plain):
                    selected = Style.from_styles(self.screen.get_component_styles("screen--selection"))
                    piece = piece.stylize(selected, max(0, begin), end)
            cells = indent + start + self._add(segments, piece, inner, (x, row.y))
        if row.kind == "rule":
            segments.append(Segment("─" * (width - cells), inner.rich_style))
        elif row.copy and width - cells > len(COPY) + 2:
            click = self.get_visual_style(row.kind, "copy")
            click += Style.from_meta({"@click": f"copy_block({row.copy})"})
            label = f"{COPY} {row.copy}" if row.copy < 10 else COPY
            segments.append(Segment(" " * (width - cells - len(label) - 1), inner.rich_style))
            segments += [Segment(label, click.rich_style), Segment(" ", inner.rich_style)]
        return Strip(segments).adjust_cell_length(width, inner.rich_style)

    def _add(
        self, segments: list[Segment], content: Content, style: Style, offset: tuple[int, int] | None = None
    ) -> int:
        """Appends the content's segments; its cells."""
        if not content.plain:
            return 0
        x, y = offset or (0, 0)
        for text, part in content.render(style, end="", parse_style=self._get_style):
            whole = style + part
            segments.append(Segment(text, whole.rich_style_with_offset(x, y) if offset else whole.rich_style))
            x += len(text)
        return content.cell_length

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        return selection.extract("\n".join(leaf.content.plain for leaf in self.parsed)), "\n"

    def action_copy_block(self, number: int) -> None:
        """Copies a code block, by its number."""
        code = next((leaf.content.plain for leaf in self.parsed if leaf.number == number), None)
        if code is not None:
            self.app.copy_to_clipboard(code)

    def action_show_link(self, target: str) -> None:
        """Copies where a link leads: an answer must not open pages."""
        self.app.copy_to_clipboard(target)

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self.refresh()


def _wrapped(line: Content, width: int) -> Iterator[tuple[int, Content]]:
    """The pieces of a line that fit into so many cells, each with its first character's place."""
    plain = line.plain
    if len(plain) <= width and (plain.isascii() or line.cell_length <= width):
        yield 0, line
        return
    x = 0
    cuts = divide_line(plain, width, fold=True)
    for piece in line.divide(cuts):
        yield x, piece.rstrip() if piece.cell_length > width else piece
        x += len(piece.plain)


def _table_rows(leaf: Leaf, content: Content, width: int, y: int) -> Iterator[Row]:
    """The cells of one row beside each other, wrapped where the table is too wide."""
    gaps = len(SEPARATOR) * (len(leaf.widths) - 1)
    room = width - gaps
    widths = list(leaf.widths)
    while sum(widths) > room and max(widths) > 1:
        widths[widths.index(max(widths))] -= 1
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
        yield Row(leaf.first if line == 0 else leaf.rest, tuple(pieces), y, "head" if leaf.kind == "head" else "")
