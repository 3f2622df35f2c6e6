"""The code of an answer, for `outrider ask --extract`."""

from __future__ import annotations

import re

from app.complete_markdown import complete_markdown

CLOSED = re.compile(r"[>\s]*(`{3,}|~{3,})\s*")
"""The line that ends a block of code."""


def code_of(answer: str) -> tuple[list[str], bool]:
    """The contents of an answer's fenced code blocks, each with a line end; and whether the last one is complete.

    An incomplete block is left out: its last command may be half of one that means something else.
    """
    blocks, lines = list[str](), answer.split("\n")
    for token in complete_markdown("zero").enable(["fence", "list", "blockquote", "code"]).parse(answer):
        if token.type != "fence" or token.map is None:
            continue
        first, end = token.map[0], token.map[1]
        closing = CLOSED.fullmatch(lines[end - 1]) if end - 1 > first else None
        if closing is None or not closing[1].startswith(token.markup):
            return blocks, False
        blocks.append(token.content)
    return blocks, True
