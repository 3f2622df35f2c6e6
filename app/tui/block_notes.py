"""The notes of an answer: what its commands would do that cannot be undone, and the pages that it came from."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from app.tui.markdown.leaf import Leaf
from app.tui.markdown.notes import AnswerNotes, NoteLine
from app.tui.markdown.parser import leaves
from app.tui.sources import SourcePage, said


@lru_cache(maxsize=64)
def answer_notes(question: str, text: str, sources: tuple[SourcePage, ...]) -> AnswerNotes:
    """The notes of a finished answer. Call it in a thread: it may load the parser of commands."""
    code = tuple(leaf for leaf in leaves(text) if leaf.kind == "code")
    return replace(block_notes(question, code), footer=source_lines(sources))


def block_notes(question: str, blocks: tuple[Leaf, ...]) -> AnswerNotes:
    """The notes of the code blocks of an answer that is still written. Call it in a thread."""
    return AnswerNotes()


def source_lines(sources: tuple[SourcePage, ...]) -> tuple[NoteLine, ...]:
    """The line that names the pages. A click on it shows them."""
    return (NoteLine(((said(sources), ".notice"),), click="show_sources"),) if sources else ()
