"""Where the blocks of a growing Markdown text end.

A block that can change no more goes to the Markdown widget, once; what follows it is cheap plain text until it is
complete too. Re-highlighting an open fence of 200 lines on every flush takes 85 % of a core, plain text 28 %.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

FENCE = re.compile(r"[ \t]*(?P<marks>`{3,}|~{3,})[ \t]*(?P<language>[^\s`]*)[^`]*$")


@dataclass(frozen=True)
class Block:
    """A run of lines, `text[start:end]` of the whole; blank lines around it belong to no block."""

    start: int
    end: int
    language: str | None = None
    """Of a fence ("" where it names none); None for prose."""
    body: tuple[int, int] = (0, 0)
    """Of a fence: the code between its two lines of marks."""
    closed: bool = False
    """Text added later cannot belong to it."""

    @property
    def fenced(self) -> bool:
        return self.language is not None


def split(text: str) -> list[Block]:
    """The blocks of `text`, in order; the closed ones first.

    A blank line ends prose. A list whose items are apart comes out as several blocks, which Markdown joins again.
    """
    return list(_blocks(text))


def closed_length(text: str) -> int:
    """Characters from the start that are closed blocks, with the blank lines after them."""
    blocks = split(text)
    open_block = next((block for block in blocks if not block.closed), None)
    if open_block is not None:
        return open_block.start
    # Spaces after the last line break may yet begin a block.
    return text.rfind("\n") + 1 if blocks else 0


def code_blocks(text: str) -> list[str]:
    """The code of each fence, without its marks and its last newline."""
    return [text[slice(*block.body)].removesuffix("\n") for block in split(text) if block.fenced]


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
                # Marks at the very end are about to close it.
                body_end = offset if only_marks and not complete else end
        elif match := FENCE.match(line):
            if prose is not None:
                yield Block(prose, offset, closed=complete)  # The rest of the line may yet make it prose.
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
