"""The notes about the code blocks of an answer: coloured words in a block, and lines below it.

They consist of plain values, so that a wrapped text can be cached together with its notes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from rich.cells import cell_len
from textual.content import Content
from textual.style import Style

from app.tui.textual_private import wrap_offsets

HANGING = 2
"""Cells by which all lines of a note but the first are moved to the right."""


@dataclass(frozen=True)
class NoteLine:
    """A line of words, wrapped where it is too long."""

    parts: tuple[tuple[str, str], ...]
    """Pieces of text, each with its style: a component class such as ".danger", or ""."""
    click: str = ""
    """The action that a click runs; may be empty."""

    def content(self) -> Content:
        content = Content.assemble(*self.parts)
        return content.stylize(Style.from_meta({"@click": self.click})) if self.click else content


@dataclass(frozen=True)
class BlockNotes:
    marks: tuple[tuple[int, int, str], ...] = ()
    """Ranges of the characters of the code, each with a component class."""
    lines: tuple[NoteLine, ...] = ()
    """The lines below the block."""


@dataclass(frozen=True)
class AnswerNotes:
    blocks: tuple[tuple[int, BlockNotes], ...] = ()
    """Number of the code block, from 1, and its notes. Blocks without notes are left out."""
    footer: tuple[NoteLine, ...] = ()
    """The lines below the whole answer."""

    @cached_property
    def by_number(self) -> dict[int, BlockNotes]:
        return dict(self.blocks)


NO_BLOCK_NOTES = BlockNotes()
NO_NOTES = AnswerNotes()


def wrap_note(note: NoteLine, left: Content, width: int) -> Iterator[Content]:
    """Wrap a note into rows of `width` cells, each prefixed with `left`."""
    content = note.content()
    room = max(1, width - left.cell_length - HANGING)
    if cell_len(content.plain) <= room + HANGING:
        yield left + content
        return
    # The first row has more room than the others, but one that is as wide as they are is easier to read.
    for number, piece in enumerate(content.divide(wrap_offsets(content.plain, room))):
        yield Content.assemble(left, " " * HANGING if number else "", piece.rstrip())
