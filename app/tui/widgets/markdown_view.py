"""Markdown in one widget, drawn line by line: a finished text, or one that grows.

A finished text is wrapped once for each width, and drawn when it comes into view. A growing text is parsed again from
its last block on, and asks for a layout only when it has become taller.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, takewhile, zip_longest
from typing import NamedTuple

from textual.geometry import Offset, Region, Size
from textual.message import Message
from textual.selection import Selection
from textual.strip import Strip

from app.tui.markdown.blocks import closed_length
from app.tui.markdown.layout import WrappedLeaf, character_at, ranges_in, wrap, wrap_finished
from app.tui.markdown.leaf import Leaf
from app.tui.markdown.notes import NO_NOTES, AnswerNotes
from app.tui.markdown.parser import close_marks, highlight_leaf, leaves, parse
from app.tui.markdown.struck import Struck, strike
from app.tui.textual_private import GrowingHeight, use_line_cache
from app.tui.widgets.markdown_rows import paint

LONG = 4_000
"""A part of more characters is parsed in a thread: 20,000 take 10 ms, and 100 ms if all are brackets."""
HELD = 4
"""Most empty rows that a growing text keeps when it becomes shorter. Withdrawn words are soon replaced by others, and
this keeps the lines above from jumping back and forth."""
WAITING = "…"


class TextPlace(NamedTuple):
    """A place in a text that is the same at every width."""

    leaf: int
    y: int
    """The number of the line in the whole text."""
    x: int
    """The index of the character in that line."""


class MarkdownView(GrowingHeight):
    """Shows Markdown, with notes below its code blocks. A click on a link or on the label of a code block copies it."""

    ALLOW_SELECT = True
    COMPONENT_CLASSES = {
        "bullet",
        "chosen",
        "code",
        "code_head",
        "code_inline",
        "copy",
        "cursor",
        "danger",
        "dropped",
        "dropped_marks",
        "em",
        "ghost",
        "head",
        "heading",
        "notice",
        "quote",
        "rule",
        "s",
        "strong",
        "title",
        "unverified",
        "warning",
    }

    class SourcesClicked(Message):
        """The person clicked on the line that names the pages of the answer."""

    def __init__(self, text: str = "", *, notes: AnswerNotes = NO_NOTES, labels: bool = True) -> None:
        super().__init__()
        use_line_cache(self)
        self.source = text
        """The Markdown as it was written."""
        self.parsed = list(leaves(text)) if text else []
        self.growing = not text
        """More text may come."""
        self._final = len(self.parsed)
        self._final_to = len(text)
        """Leaves, and characters of the text, that cannot change any more."""
        self._complete_to = len(text)
        """Characters of the text in blocks that have ended. If some of them are drafted, they may still change."""
        self._notes = notes
        self._labels = labels
        """Code blocks have a label that copies them."""
        self._chosen = 0
        """The number of the code block that has the cursor; 0: none."""
        self._solid = len(text)
        self._shaded: tuple[tuple[int, int], ...] = ()
        self._struck: tuple[Struck, ...] = ()
        self._wrapped: list[WrappedLeaf] = []
        self._drawn: list[WrappedLeaf] = []
        """The wrapped leaves, with the struck text among their rows."""
        self._tops: list[int] = [0]
        self._height = 0
        self._width = 0

    # ---- what is shown -----------------------------------------------------------------------------------------------

    async def grow(self, text: str, solid: int) -> None:
        """Shows a growing text, of which the first `solid` characters are verified and will stay.

        Only one call may run at a time: complete code is highlighted in a thread, and a long block is parsed in one.
        """
        part = text[self._final_to :]
        if len(part) > LONG or any(mark in part[: closed_length(part)] for mark in ("```", "~~~")):
            read = await asyncio.to_thread(self._read, text, solid)
        else:
            read = self._read(text, solid)
        self.parsed, self._final, self._final_to, self._complete_to = read
        self.source, self._solid, self.growing = text, solid, True
        self._redraw()

    def _read(self, text: str, solid: int) -> tuple[list[Leaf], int, int, int]:
        """The leaves of a growing text, then `_final`, `_final_to` and `_complete_to`."""
        final, start = self._final, self._final_to
        if not text.startswith(self.source[:start]):
            final = start = 0
        known = self.parsed[:final]
        code = sum(leaf.kind == "code" for leaf in known)
        complete = start + closed_length(text[start:])
        closed = start + closed_length(text[start:solid])
        if closed > start:
            fresh, start = parse(text[:closed], start, code)
            fresh = [highlight_leaf(leaf) for leaf in fresh if leaf.source[0] < start]
            known += fresh
            code += sum(leaf.kind == "code" for leaf in fresh)
        growing, _ = parse(text[:start] + close_marks(text[start:]), start, code)
        final = len(known)
        known += [highlight_leaf(leaf) if leaf.source[1] <= complete else leaf for leaf in growing]
        return self._known(known), final, start, complete

    def finish(self, text: str, notes: AnswerNotes = NO_NOTES) -> None:
        self.source, self._solid, self.growing = text, len(text), False
        self.parsed = self._known(leaves(text))
        self._final, self._final_to, self._complete_to = len(self.parsed), len(text), len(text)
        self._notes = notes
        self._redraw()

    @property
    def complete_blocks(self) -> tuple[Leaf, ...]:
        return tuple(leaf for leaf in self.parsed if leaf.kind == "code" and leaf.source[1] <= self._complete_to)

    def annotate(self, notes: AnswerNotes) -> None:
        if notes != self._notes:
            self._notes = notes
            self._redraw()

    def _known(self, fresh: Sequence[Leaf]) -> list[Leaf]:
        """The fresh leaves, with the old object for each that looks as before, so that it is not wrapped again."""
        before = zip_longest(self.parsed[: len(fresh)], fresh)
        return [old if old is not None and old.looks_like(new) else new for old, new in before]

    def shade(self, ranges: Sequence[tuple[int, int]]) -> None:
        if tuple(ranges) != self._shaded:
            self._shaded = tuple(ranges)
            self._redraw()

    def strike(self, struck: tuple[Struck, ...]) -> None:
        """Show dropped texts struck through at their places in a finished text."""
        if struck != self._struck:
            self._struck = struck
            self._redraw()

    def choose(self, number: int) -> None:
        """Marks the code block of this number as the one that has the cursor; 0: none."""
        if number != self._chosen:
            self._chosen = number
            self.refresh()

    def rows_of_block(self, number: int) -> tuple[int, int] | None:
        """The first row of a code block, and the row after its notes, or None if it is not drawn."""
        at = next((at for at, one in enumerate(self._drawn) if number and one.leaf.number == number), None)
        return None if at is None else (self._tops[at], self._tops[at + 1])

    @property
    def plain(self) -> str:
        """The text as it is read, without wrapping."""
        return "\n".join(f"{leaf.first.plain}{leaf.content.plain}" for leaf in self.parsed)

    @property
    def ghost(self) -> str:
        return "".join(leaf.content.plain[leaf.characters_before(self._solid) :] for leaf in self.parsed)

    @property
    def shaded(self) -> str:
        """The parts that are marked as unverified, joined."""
        spans = [(leaf, span) for leaf in self.parsed for span in ranges_in(leaf, self._shaded)]
        return "".join(leaf.content.plain[start:end] for leaf, (start, end) in spans)

    def place_at(self, row: int) -> TextPlace | None:
        """The place of the text in this row, to be found again at another width."""
        if not 0 <= row < self._tops[-1]:
            return None
        at = bisect_right(self._tops, row) - 1
        above = reversed(self._drawn[at].rows[: row - self._tops[at] + 1])
        # A note counts as the last line of its block.
        found = next((TextPlace(at, one.y, one.place) for one in above if one.place is not None), None)
        return found or TextPlace(at, 0, 0)

    def row_of(self, place: TextPlace, width: int) -> int:
        """The row of that place if the text is `width` cells wide."""
        if width != self._width:
            self._lay_out(width)
        at = min(place.leaf, len(self._drawn) - 1)
        rows = self._drawn[at].rows
        before = [n for n, row in enumerate(rows) if row.place is not None and (row.y, row.place) <= place[1:]]
        return self._tops[at] + (before[-1] if before else 0)

    # ---- rows --------------------------------------------------------------------------------------------------------

    def _redraw(self) -> None:
        """Draws the rows from the first one that has changed."""
        before, height = self._drawn, self._height
        self._lay_out(self._width)
        same = sum(1 for _ in takewhile(_are_one, zip(before, self._drawn)))
        if same == len(before) == len(self._drawn) and height == self._height:
            return
        top = self._tops[same]
        if same < min(len(before), len(self._drawn)):
            rows = zip(before[same].rows, self._drawn[same].rows)
            top += sum(1 for _ in takewhile(_are_one, rows))
        bottom = max(height, self._height)
        self.refresh(Region(0, top, self.size.width, max(1, bottom - top)), layout=height != self._height)

    def _lay_out(self, width: int) -> None:
        """Wraps the leaves that have changed since the last time; all of them if the width has."""
        if not width:
            return
        known = self._wrapped if width == self._width else []
        if known or self.growing or self._shaded:
            drawn = wrap(self.parsed, width, solid=self._solid, shaded=self._shaded, notes=self._notes, known=known)
        else:
            drawn = list(wrap_finished(self.source, width, self._notes))
        self._wrapped = drawn
        if self._struck:
            drawn = strike(drawn, self._struck, width)
        self._tops = [0, *accumulate(len(one.rows) for one in drawn)]
        held = self._height if self.growing and width == self._width else 0
        self._height = max(self._tops[-1], min(held, self._tops[-1] + HELD))
        self._drawn, self._width = drawn, width

    # ---- what Textual asks for ---------------------------------------------------------------------------------------

    def get_content_width(self, container: Size, viewport: Size) -> int:
        return container.width

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        if width != self._width:
            self._lay_out(width)
        return self._height

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        style = self.visual_style
        if width != self._width:
            self._lay_out(width)
        if y >= self._tops[-1]:
            return Strip.blank(width, style.rich_style)
        at = bisect_right(self._tops, y) - 1
        drawn = self._drawn[at]
        chosen = bool(self._chosen) and drawn.leaf.number == self._chosen
        return paint(self, drawn.rows[y - self._tops[at]], width, chosen=chosen, labels=self._labels)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        text = "\n".join(leaf.content.plain for leaf in self.parsed)
        lines = text.split("\n")

        def place(offset: Offset | None) -> Offset | None:
            return offset and Offset(character_at(lines[offset.y], offset.x) if offset.y < len(lines) else 0, offset.y)

        return Selection(place(selection.start), place(selection.end)).extract(text), "\n"

    def action_copy_block(self, number: int) -> None:
        code = next((leaf.content.plain for leaf in self.parsed if leaf.number == number), None)
        if code is not None:
            self.app.copy_to_clipboard(code)

    def action_show_link(self, target: str) -> None:
        """Copies the address of a link: an answer must not open pages."""
        self.app.copy_to_clipboard(target)

    def action_show_sources(self) -> None:
        self.post_message(self.SourcesClicked())

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self.refresh()


def _are_one(pair: tuple[object, object]) -> bool:
    return pair[0] is pair[1]
