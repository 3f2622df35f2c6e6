"""The blocks of a growing Markdown text, and which of them cannot change any more.

A closed block is parsed and highlighted once. Highlighting an open fence of 200 lines at every flush takes 85 % of a
core; as plain text it takes 28 %.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

FENCE = re.compile(r"[ \t]*(?P<marks>`{3,}|~{3,})[ \t]*(?P<language>[^\s`]*)[^`]*$")


@dataclass(frozen=True)
class Block:
    """A paragraph or a fence: the lines `text[start:end]`, without the blank lines around them."""

    start: int
    end: int
    language: str | None = None
    """The language that a fence names, or ""; None for prose."""
    body: tuple[int, int] = (0, 0)
    """Start and end of the code in a fence, without its two lines of marks."""
    closed: bool = False
    """Whether the block is complete, so that text added later cannot belong to it."""

    @property
    def fenced(self) -> bool:
        return self.language is not None


def split(text: str) -> list[Block]:
    """The blocks of a text in order: the closed ones, then perhaps an open one.

    A blank line ends prose. So a list with blank lines comes out as several blocks, which Markdown joins again.
    """
    return list(_blocks(text))


def closed_length(text: str) -> int:
    """The number of characters in the closed blocks and the blank lines after them."""
    blocks = split(text)
    open_block = next((block for block in blocks if not block.closed), None)
    if open_block is not None:
        return open_block.start
    # Spaces after the last line break may still begin a block.
    return text.rfind("\n") + 1 if blocks else 0


def _blocks(text: str) -> Iterator[Block]:
    prose: int | None = None
    fence: re.Match[str] | None = None
    fence_start = body_start = body_end = offset = 0
    for line in text.split("\n"):
        end = min(offset + len(line) + 1, len(text))
        complete = end - offset > len(line)
        if fence is not None:
            marks = line.strip()
            only_marks = set(marks) == {fence["marks"][0]}
            if complete and only_marks and len(marks) >= len(fence["marks"]):
                yield Block(fence_start, end, fence["language"], (body_start, offset), closed=True)
                fence = None
            else:
                # Marks at the very end of the text are about to close the fence.
                body_end = offset if only_marks and not complete else end
        elif match := FENCE.match(line):
            if prose is not None:
                yield Block(prose, offset, closed=complete)  # The rest of the line may still make it prose.
                prose = None
            fence, fence_start, body_start, body_end = match, offset, end, end
        elif line.strip():
            prose = offset if prose is None else prose
        elif prose is not None and complete:
            yield Block(prose, offset, closed=True)
            prose = None
        offset = end
    if fence is not None:
        yield Block(fence_start, len(text), fence["language"], (body_start, body_end))
    elif prose is not None:
        yield Block(prose, len(text))
