"""The end of a growing answer: blocks that are still open, and the ghost text after them.

Plain `Static` widgets that look as Markdown will once the blocks are closed, so that nothing jumps when they are.
"""

from __future__ import annotations

import re
from functools import lru_cache

from textual.containers import Vertical
from textual.content import Content
from textual.highlight import highlight
from textual.widgets import Static

from app.tui.blocks import Block, split

GHOST = "dim"
WAITING = "…"
INLINE = re.compile(
    r"(?P<marks>`+)(?P<code>.*?)(?:(?P=marks)|`*$)"
    r"|\*\*(?P<strong>.+?)(?:\*{2}|\*?$)"
    r"|(?:^|(?<=\n))(?P<bullet>[ ]*[-*+][ ])(?=\S)"
    r"|(?:^|(?<=\n))#{1,6}[ ]+(?P<heading>[^\n]*)"
    r"|(?P<softbreak>(?<=\S)\n(?![ ]*(?:[-*+]|\d+[.)]|\#{1,6}|\|)[ ]))",
    re.DOTALL,
)


class OpenBlock(Static):
    """One block of the tail."""

    COMPONENT_CLASSES = {"code_inline", "strong", "bullet"}


class Tail(Vertical):
    """The blocks after those that the Markdown widget already has. Its looks are in `message.tcss`."""

    def show(self, text: str, solid: int) -> None:
        """Shows `text`, of which the first `solid` characters are verified."""
        blocks = split(text)
        statics = list(self.query_children(OpenBlock))
        if len(statics) < len(blocks):
            added = [OpenBlock(markup=False) for _ in range(len(blocks) - len(statics))]
            statics += added
            self.mount_all(added)
        for static, block in zip(statics, blocks):
            static.set_class(block.fenced, "-code")
            static.update(preview(text, block, solid))
        for spare in statics[len(blocks) :]:
            spare.remove()

    def wait(self) -> None:
        """Nothing has come yet."""
        self.show(WAITING, 0)


def preview(text: str, block: Block, solid: int) -> Content:
    """The block as Markdown will show it, what lies after `text[:solid]` as ghost text."""
    if block.fenced:
        start, end = block.body
        code = text[start:end].rstrip("\n")
        content = highlighted(code, block.language or "text") if block.closed else Content(code)
        ghost = solid - start
    else:
        content, ghost = _prose(text[block.start : block.end].rstrip("\n"), solid - block.start)
    return content.stylize(GHOST, max(ghost, 0)) if ghost < len(content) else content


@lru_cache(maxsize=64)
def highlighted(code: str, language: str) -> Content:
    """Highlighted code. A fence that names no language stays plain: guessing loads every lexer, which takes seconds."""
    return highlight(code, language=language)


def _prose(source: str, solid: int) -> tuple[Content, int]:
    """The text without its Markdown marks, and how many of its characters come from `source[:solid]`."""
    pieces: list[tuple[str, str, int]] = []
    at = 0
    for match in INLINE.finditer(source):
        pieces.append((source[at : match.start()], "", at))
        for group, style in (("code", ".code_inline"), ("strong", ".strong"), ("heading", ".strong")):
            if match[group] is not None:
                pieces.append((match[group], style, match.start(group)))
        if match["bullet"] is not None:
            pieces.append(("• ".rjust(len(match["bullet"])), ".bullet", match.start()))
        elif match["softbreak"] is not None:
            pieces.append((" ", "", match.start()))
        at = match.end()
    pieces.append((source[at:], "", at))
    shown = sum(min(len(piece), max(solid - start, 0)) for piece, _, start in pieces)
    return Content.assemble(*((piece, style) for piece, style, _ in pieces)), shown
