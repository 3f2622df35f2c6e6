"""Dropped text, struck through at its place in the text that replaced it.

In prose it is within the line. In code, whole lines are above the line that replaced them, as in a diff, so that no
line mixes both. Struck text is not part of the text: it is neither copied, nor selected, nor counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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


def strike(drawn: Sequence[WrappedLeaf], struck: Sequence[Struck], width: int) -> list[WrappedLeaf]:
    """The wrapped leaves of a finished text, with the dropped texts among their rows."""
    here: dict[int, list[Struck]] = {}
    for one in sorted(struck, key=lambda one: one.at) if drawn else ():
        at = next((n for n, leaf in enumerate(drawn) if one.at <= leaf.leaf.source[1]), len(drawn) - 1)
        here.setdefault(at, []).append(one)
    return [_struck(one, here[at], at == 0, width) if at in here else one for at, one in enumerate(drawn)]


def _struck(drawn: WrappedLeaf, struck: Sequence[Struck], first: bool, width: int) -> WrappedLeaf:
    """One leaf with the texts that were dropped there. `first`: it begins the text."""
    leaf, gap = drawn.leaf, [Row(Content(""))]
    above, below = list[Row](), list[Row]()
    words, codes = dict[int, Content](), list[tuple[int, str]]()
    for one in struck:
        dropped, before = leaves(one.text), leaf.characters_before(one.at)
        if not dropped:
            continue
        if before and leaf.kind == "prose" and dropped[0].kind == "prose" and not dropped[0].first.plain:
            said = " ".join(dropped[0].content.plain.split())
            words[before] = Content(f"{words[before].plain} {said}" if before in words else said).stylize(STYLE)
            below += _blocks(dropped[1:], width)
        elif before and leaf.kind == "code":
            is_code = dropped[0].kind == "code"
            codes.append((before, dropped[0].content.plain if is_code else one.text))
            below += _blocks(dropped[1:] if is_code else (), width)
        elif one.at < leaf.source[1]:
            above += [*gap * leaf.gap, *_blocks(dropped, width), *gap * (not leaf.gap and first)]
        else:
            below += [*gap, *_blocks(dropped, width)]
    rows = list(_within_prose(drawn, words, width)) if words else list(drawn.rows)
    for before, code in reversed(codes):
        rows = list(_within_code(drawn, rows, before, code, width))
    return replace(drawn, rows=(*above, *rows, *below))


def _within_prose(drawn: WrappedLeaf, words: Mapping[int, Content], width: int) -> Iterator[Row]:
    """The rows of a paragraph with dropped words within its lines. `words`: by the characters before them."""
    leaf = drawn.leaf
    lead = list(takewhile(lambda row: not row.pieces, drawn.rows))
    tail = list(takewhile(lambda row: not row.pieces, reversed(drawn.rows)))[::-1]
    yield from lead
    first, rest = margins(leaf, width)
    begin = 0
    for number, (line, raw) in enumerate(zip(lines_of(leaf.content), leaf.content.plain.split("\n"))):
        room = max(1, width - first.cell_length)
        inside = [(at - begin, said) for at, said in words.items() if begin <= at <= begin + len(raw)]
        plain: Iterator[Pieces] = (((0, piece, x),) for x, piece in wrap_line(line, room))
        for row in _mixed(line, inside, room) if inside else plain:
            yield Row(first, row, drawn.y + number)
            first = rest
        begin += len(raw) + 1
    yield from tail


def _mixed(line: Content, inserted: Sequence[tuple[int, Content]], width: int) -> Iterator[Pieces]:
    """The pieces of each row of a line that has struck words after this many of its characters."""
    space = Content(" ")
    parts, spans = list[Content](), list[tuple[int, int, int | None]]()
    last = end = moved = 0
    for at, words in inserted:
        left, right = line[:at], line[at:]
        apart_left = space if left.plain and not left.plain[-1].isspace() else Content("")
        apart_right = space if right.plain and not right.plain[0].isspace() else Content("")
        said = Content("").join([apart_left, words, apart_right])
        parts += [line[last:at], said]
        begin = end + at - last
        spans += [(end, begin, moved), (begin, begin + len(said), None)]
        last, end, moved = at, begin + len(said), moved + len(said)
    whole = Content("").join([*parts, line[last:]])
    spans.append((end, len(whole), moved))
    for x, piece in wrap_line(whole, width):
        row: list[tuple[int, Content, int]] = []
        distance = 0
        for start, stop, shift in spans:
            part = piece[max(0, start - x) : max(0, stop - x)]
            if part.plain:
                row.append((distance, part, NO_PLACE if shift is None else max(start, x) - shift))
                distance += part.cell_length
        yield tuple(row) or ((0, Content(""), x),)


def _within_code(drawn: WrappedLeaf, rows: Sequence[Row], before: int, dropped: str, width: int) -> Iterator[Row]:
    """The `rows` of a code block, with the dropped lines above the line that replaced them."""
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
    for row in rows:
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
