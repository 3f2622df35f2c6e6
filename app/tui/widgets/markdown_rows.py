"""Draws one row of a wrapped Markdown text: its marks, its pieces, the selection, and the head of a code block."""

from __future__ import annotations

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from textual.content import Content
from textual.strip import Strip
from textual.style import Style
from textual.widget import Widget

from app.tui.markdown.layout import CODE_PADDING, NO_PLACE, Row
from app.tui.textual_private import style_finder

COPY = "copy"
CODE_ROWS = ("code_head", "code")
CURSOR = "▌"
"""Mark at the left of each row of the code block with the cursor."""


def paint(widget: Widget, row: Row, width: int, *, chosen: bool, labels: bool) -> Strip:
    """The row as a strip of `width` cells, in the component styles of the widget.

    `chosen`: it belongs to the code block that has the cursor. `labels`: heads of code blocks have a label that copies.
    """
    segments: list[Segment] = []
    style = inner = widget.visual_style
    cells = indent = _add(widget, segments, row.left, style)
    if row.kind:
        inner = widget.get_visual_style(row.kind)
    if chosen and row.kind in CODE_ROWS:
        inner = widget.get_visual_style(row.kind, "chosen")
        segments.append(Segment(CURSOR, widget.get_visual_style(row.kind, "chosen", "cursor").rich_style))
        cells += 1
    selection = widget.text_selection
    span = None if selection is None else selection.get_span(row.y)
    for start, piece, x in row.pieces:
        segments.append(Segment(" " * (indent + start - cells), inner.rich_style))
        if span is not None and x != NO_PLACE:
            begin, end = span[0] - x, len(piece.plain) if span[1] == -1 else span[1] - x
            if end > 0 and begin < len(piece.plain):
                selected = Style.from_styles(widget.screen.get_component_styles("screen--selection"))
                piece = piece.stylize(selected, max(0, begin), end)
        place = None if x == NO_PLACE else (x, row.y)
        cells = indent + start + _add(widget, segments, piece, inner, place)
    if row.kind == "rule":
        segments.append(Segment("─" * (width - cells), inner.rich_style))
    elif row.copy:
        segments += _head(widget, row, width - cells, indent + CODE_PADDING - cells, chosen=chosen, label=labels)
    return Strip(segments).adjust_cell_length(width, inner.rich_style)


def _head(widget: Widget, row: Row, room: int, indent: int, *, chosen: bool, label: bool) -> list[Segment]:
    """The head of a code block, `room` cells wide: what its fence says at the left, what copies it at the right."""
    classes = [row.kind, *["chosen"] * chosen]
    style, click = widget.get_visual_style(*classes), widget.get_visual_style(*classes, "copy")
    click += Style.from_meta({"@click": f"copy_block({row.copy})"})
    copy = f"{COPY} {row.copy}" if row.copy < 10 else COPY
    if not label or room <= len(copy) + 2:
        copy = ""
    info = set_cell_size(row.info, max(0, min(cell_len(row.info), room - indent - len(copy) - 2)))
    gap = room - indent - cell_len(info) - len(copy) - 1
    words = Segment(f"{' ' * indent}{info}{' ' * gap}", style.rich_style)
    return [words, Segment(copy, click.rich_style), Segment(" ", style.rich_style)]


def _add(
    widget: Widget,
    segments: list[Segment],
    content: Content,
    style: Style,
    offset: tuple[int, int] | None = None,
) -> int:
    """Appends the content's segments, and returns their width in cells.

    `offset`: column and line of the first character, for the selection of text.
    """
    if not content.plain:
        return 0
    x, y = offset or (0, 0)
    for text, part in content.render(style, end="", parse_style=style_finder(widget)):
        whole = style + part
        segments.append(Segment(text, whole.rich_style_with_offset(x, y) if offset else whole.rich_style))
        x += len(text)
    return content.cell_length
