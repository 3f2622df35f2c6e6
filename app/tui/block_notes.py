"""The notes of an answer: the risks of its commands, and the pages that it came from.

The rules and the parser of commands are imported with the first block of commands, so that no frame waits for them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from app.events import PageSource
from app.tui.code_blocks import CodeBlock, code_block
from app.tui.markdown.leaf import Leaf
from app.tui.markdown.notes import NO_BLOCK_NOTES, AnswerNotes, BlockNotes, NoteLine
from app.tui.markdown.parser import leaves

if TYPE_CHECKING:
    from app.commands.risk import Risk

MOST_LINES = 8
"""Lines below one block. A script of many lines has more; they are counted."""
UNASKED = "not asked for"
UNCHECKED = BlockNotes((), (NoteLine((("notice: Outrider could not check this code", ".notice"),)),))
log = logging.getLogger("outrider.screen")


@lru_cache(maxsize=64)
def answer_notes(request: str, text: str, sources: tuple[PageSource, ...]) -> AnswerNotes:
    """The notes of a finished answer. Call this in a thread, because it may load the parser of commands."""
    parsed = leaves(text)
    whole = "\n".join(leaf.content.plain for leaf in parsed if leaf.kind == "code")
    footer = (NoteLine(((line, ".notice"),), click="show_sources") for line in source_lines(sources))
    return AnswerNotes(_noted(request, parsed, whole), tuple(footer))


def block_notes(request: str, blocks: Sequence[Leaf]) -> AnswerNotes:
    """The notes of those code blocks of a running answer that have ended. Call this in a thread."""
    return AnswerNotes(_noted(request, blocks))


@lru_cache(maxsize=256)
def notes_of_block(request: str, block: CodeBlock, whole: str | None = None) -> BlockNotes:
    """The risks of a block's commands; nothing for other code. `request`: what the person asked for.

    `whole`: the code of all blocks once the answer has ended, for what they leave out together.
    """
    if block.shell is None:
        return NO_BLOCK_NOTES
    from app.commands.requests import unasked

    try:
        found = _risks(request, block, whole)
        surplus = unasked(request, found)
    except Exception as error:  # A rule that fails on hostile text must not cost the answer.
        log.error("a code block was not checked: %s", type(error).__name__)
        return UNCHECKED
    told = sorted(found, key=lambda risk: -risk.severity.rank)
    lines = list(dict.fromkeys(_line(risk, asked=risk not in surplus) for risk in told))
    if len(lines) > MOST_LINES:
        more = NoteLine(((f"and {len(lines) - MOST_LINES + 1} more", ".notice"),))
        lines = [*lines[: MOST_LINES - 1], more]
    marks = [
        (*block.span_in_code(risk.span), f".{risk.severity}") for risk in reversed(told) if risk.severity != "notice"
    ]
    return BlockNotes(tuple(marks), tuple(lines))


def _risks(request: str, block: CodeBlock, whole: str | None) -> tuple[Risk, ...]:
    """The risks of the commands in a block of commands, and what of the request all blocks leave out."""
    from app.commands.conditions import left_out
    from app.commands.risks import MAYBE_OUTPUT, risks

    found = risks(block.shell.command) if block.shell is not None else ()
    if whole is not None:
        found += left_out(request, whole, found)
    if block.language:
        return found
    return tuple(risk for risk in found if risk.kind not in MAYBE_OUTPUT)


def _noted(request: str, parsed: Sequence[Leaf], whole: str | None = None) -> tuple[tuple[int, BlockNotes], ...]:
    blocks = [code_block(leaf) for leaf in parsed if leaf.kind == "code"]
    notes = ((block.number, notes_of_block(request, block, whole)) for block in blocks)
    return tuple((number, one) for number, one in notes if one != NO_BLOCK_NOTES)


def _line(risk: Risk, *, asked: bool) -> NoteLine:
    style, mild = f".{risk.severity}", risk.severity == "notice"
    head = f"{risk.severity}: " if asked else f"{risk.severity}, {UNASKED}: "
    return NoteLine(((head, style), (risk.sentence, style if mild else "")))


def source_lines(sources: Iterable[PageSource]) -> Iterator[str]:
    """The lines below an answer that name its pages."""
    known = tuple(sources)
    for by, words in (("tldr", "from the"), ("outrider", "from Outrider's own examples; more on the")):
        if pages := [f"{source.page} ({source.platform})" for source in known if source.by == by]:
            yield f"{words} page{'s' * (len(pages) > 1)} {', '.join(pages)} of tldr pages"
