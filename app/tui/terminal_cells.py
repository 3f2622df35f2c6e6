"""Models the terminal cell by cell, and finds the fewest bytes that turn it into the next frame.

Textual sends every line that it has drawn again, each piece with all of its colours. A line of text that scrolls in
would cost the whole screen. Here a frame costs the cells that differ; what only moved up or down is scrolled by the
terminal itself.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from rich.cells import split_graphemes

GAP = 4
"""Equal cells that are sent again rather than skipped: a move of the cursor takes as many bytes."""
LEAST_MOVED = 3
"""Equal lines that must have moved together before a scroll is considered."""
ODD_LINES = 3
"""Changed lines, such as the status bar, that may reach further to either side than what has moved."""
SCROLL_COST = 20
"""Bytes of a scroll."""
PICTOGRAPHS, FLAGS = 0x1F000, range(0x1F1E6, 0x1F200)
"""The first code point whose width terminals do not agree on, and letters that make a flag in pairs."""


class CellStyle(NamedTuple):
    """The parameters of one Select Graphic Rendition sequence, in its three parts."""

    attributes: str | None = ""
    """Empty: none; None: any that cannot be seen in a blank cell."""
    foreground: str = ""
    background: str = ""

    @property
    def shows_in_blanks(self) -> bool:
        """Whether more of it than the background can be seen in a blank cell, such as an underline."""
        return bool(self.attributes) and not set((self.attributes or "").split(";")) <= {"1", "2", "3"}


Cell = tuple[str, CellStyle]
"""One column of a line: its text, which is empty in the right half of a wide character, and its style."""
Row = list[Cell | None]
"""A line; None: unknown."""
RESET = CellStyle()


def cells(text: str, codes: str) -> list[Cell]:
    """The cells of a text. `codes`: its style, as the parameters of an escape sequence."""
    style, blank = _parsed(codes)
    if text.isascii():
        return [(char, blank if char == " " else style) for char in text]
    row: list[Cell] = []
    for start, end, width in split_graphemes(text)[0]:
        part = text[start:end]
        if not row or width:
            row.append((part, blank if part == " " else style))
            row += [("", style)] * (width - 1)
        else:  # It belongs to the character before it.
            row[-1] = row[-1][0] + part, style
        if ord(part[0]) in FLAGS and len(row) > 1 and len(row[-2][0]) == 1 and ord(row[-2][0]) in FLAGS:
            row[-2:] = [(row[-2][0] + part, style), ("", style)]
    return row


@lru_cache(maxsize=2048)
def _parsed(codes: str) -> tuple[CellStyle, CellStyle]:
    """The style of these parameters, and that of a blank cell in it: most of a style cannot be seen there."""
    attributes: list[str] = []
    colours = {"3": "", "4": ""}
    parts = codes.split(";") if codes else []
    while parts:
        code = parts.pop(0)
        if code in ("38", "48"):
            length = 4 if parts[0] == "2" else 2
            colours[code[0]] = ";".join([code, *parts[:length]])
            del parts[:length]
        elif 30 <= int(code) < 50 or int(code) >= 90:
            ground = "3" if int(code) < 40 or 90 <= int(code) < 100 else "4"
            colours[ground] = code
        else:
            attributes.append(code)
    style = CellStyle(";".join(attributes), colours["3"], colours["4"])
    return style, style if style.shows_in_blanks else CellStyle(None, "", colours["4"])


class TerminalCells:
    """The cells as they were last written."""

    def __init__(self) -> None:
        self._rows: list[Row] = []
        self._columns = 0
        self.sent = 0
        """Bytes of all frames so far, about: a character counts as one."""

    def forget(self, lines: int, columns: int) -> None:
        """Know nothing of a terminal of this size, because something else may have written on it."""
        self._rows = [[None] * columns for _ in range(lines)]
        self._columns = columns

    def frame(self, pieces: Iterable[tuple[int, int, Sequence[Cell]]], lines: int, columns: int) -> str:
        """The bytes that bring these pieces (column, line, cells) to a terminal of this size."""
        if (lines, columns) != (len(self._rows), self._columns):
            self.forget(lines, columns)
        after: dict[int, Row] = {}
        for x, y, piece in pieces:
            row = after.setdefault(y, self._rows[y].copy())
            row[x : x + len(piece)] = piece
            del row[columns:]
        changed = {y: row for y, row in sorted(after.items()) if row != self._rows[y]}
        out = [self._scroll(changed)]
        pen = Pen()
        differing = [one for y, row in changed.items() for one in _pieces(y, self._rows[y], row)]
        for one in sorted(differing):
            out += pen.write(one, changed[one.y])
        for y, row in changed.items():
            self._rows[y] = row
        written = "".join([*out, pen.end()])
        self.sent += len(written)
        return written

    def _scroll(self, changed: dict[int, Row]) -> str:
        moved = _moved(self._rows, changed)
        if moved is None:
            return ""
        first, last, by = moved
        unknown: list[Row] = [[None] * self._columns for _ in range(abs(by))]
        kept = self._rows[first + by : last + 1] if by > 0 else self._rows[first : last + 1 + by]
        scrolled = [*kept, *unknown] if by > 0 else [*unknown, *kept]
        wanted = [changed.get(y, self._rows[y]) for y in range(first, last + 1)]
        saved = _differing(self._rows[first : last + 1], wanted) - _differing(scrolled, wanted)
        if saved < SCROLL_COST:
            return ""
        for y, row in enumerate(wanted, first):
            changed[y] = row
        self._rows[first : last + 1] = scrolled
        # The oldest way, which every terminal knows: a line feed at the lower margin, or a reverse one at the upper.
        at, feed = (last, "\n") if by > 0 else (first, "\x1bM")
        return f"\x1b[{first + 1};{last + 1}r\x1b[{at + 1};1H{feed * abs(by)}\x1b[r"


def _moved(before: Sequence[Row], changed: dict[int, Row]) -> tuple[int, int, int] | None:
    """The first and the last line of what has moved, and by how many lines (upwards if positive), or None.

    Only the columns in which most lines have changed are compared: the columns next to them have not moved.
    """
    spans = [_span(before[y], row) for y, row in changed.items()]
    if len(spans) < LEAST_MOVED:
        return None
    odd = min(ODD_LINES, len(spans) // 4)
    left, right = sorted(start for start, _ in spans)[odd], sorted(end for _, end in spans)[-1 - odd]
    places = defaultdict(list)
    for y in changed:
        places[tuple(before[y][left:right])].append(y)
    votes = Counter[int]()
    rows: dict[int, list[int]] = defaultdict(list)
    for y, row in changed.items():
        key = tuple(row[left:right])
        if len(set(key[:-1])) > 1:  # Not blank. The last column may have the scroll bar.
            for old in places.get(key, ()):
                votes[old - y] += 1
                rows[old - y] += [old, y]
    by, count = votes.most_common(1)[0] if votes else (0, 0)
    return (min(rows[by]), max(rows[by]), by) if by and count >= LEAST_MOVED else None


def _span(before: Row, after: Row) -> tuple[int, int]:
    """The columns from the first that differs to behind the last one."""
    differing = [x for x, (old, new) in enumerate(zip(before, after)) if old != new]
    return differing[0], differing[-1] + 1


def _differing(before: Sequence[Row], after: Sequence[Row]) -> int:
    return sum(sum(old != new for old, new in zip(one, other)) for one, other in zip(before, after) if one != other)


class Piece(NamedTuple):
    """Cells of one line in one style. Sorted, those of one style follow one another: styles are most of the bytes."""

    style: tuple[str, ...]
    y: int
    start: int
    end: int


def _pieces(y: int, before: Row, after: Row) -> Iterator[Piece]:
    """What has changed in a line. A blank belongs to its neighbour on the same background."""
    for start, end in _runs(before, after):
        style = RESET
        first = start
        for x in range(start, end):
            if (cell := after[x]) is None or (wanted := cell[1]) is style:
                continue
            same = x > first and wanted.background == style.background
            if same and wanted.attributes is None and not style.shows_in_blanks:
                continue
            if x > first and not (same and style.attributes is None):
                yield Piece(_order(style), y, first, x)
                first = x
            style = wanted
        yield Piece(_order(style), y, first, end)


def _order(style: CellStyle) -> tuple[str, ...]:
    return style.background, style.foreground, style.attributes or ""


class Pen:
    """Writes changed cells. It remembers which style is on."""

    def __init__(self) -> None:
        self._style = self._asked = RESET

    def write(self, piece: Piece, row: Row) -> Iterator[str]:
        """The bytes for a piece of this line."""
        here = -1  # The column of the cursor; -1: another line, or not sure.
        known = False  # Whether it is in this line.
        for x in range(piece.start, piece.end):
            cell = row[x]
            if cell is None or not cell[0]:
                continue
            text, style = cell
            if x != here:
                yield f"\x1b[{x + 1}G" if known else f"\x1b[{piece.y + 1};{x + 1}H"
                known = True
            if style is not self._asked:
                yield self._change(style)
            yield text
            here = x + 1
            if not text.isascii():
                while here < len(row) and (beside := row[here]) is not None and not beside[0]:
                    here += 1
                if len(text) > 1 or ord(text) >= PICTOGRAPHS:
                    here = -1

    def _change(self, wanted: CellStyle) -> str:
        now, wished = self._style, wanted
        self._asked = wanted
        if wished.attributes is None:
            wished = (RESET if now.shows_in_blanks else now)._replace(background=wished.background)
        if wished == now:
            return ""
        codes: list[str] = []
        if now.attributes and wished.attributes != now.attributes:
            codes, now = ["0"], RESET
        if wished.attributes != now.attributes:
            codes.append(wished.attributes or "")
        if wished.foreground != now.foreground:
            codes.append(wished.foreground or "39")
        if wished.background != now.background:
            codes.append(wished.background or "49")
        self._style = wished
        return f"\x1b[{';'.join(codes)}m" if codes else ""

    def end(self) -> str:
        """Leave the terminal without a style, as Textual does."""
        return "" if self._style == RESET else "\x1b[0m"


def _runs(before: Row, after: Row) -> Iterator[tuple[int, int]]:
    """Ranges of columns to write. Each begins with a whole character."""
    start, end = -1, -1
    for x, (old, new) in enumerate(zip(before, after)):
        if old == new or new is None:
            continue
        if start < 0 or x - end > GAP:
            if start >= 0:
                yield start, end
            start = x
            while start and (cell := after[start]) is not None and not cell[0]:
                start -= 1
        end = x + 1
    if start >= 0:
        yield start, end
