"""The code blocks of an answer, as things that can be copied, explained or put into the person's shell."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from app.attachments.renderer import fenced
from app.tui.markdown.blocks import closed_length
from app.tui.markdown.leaf import Leaf
from app.tui.markdown.parser import leaves
from app.tui.turn import Turn

if TYPE_CHECKING:
    from app.commands.blocks import ShellBlock
    from app.commands.script import Span


@dataclass(frozen=True)
class CodeBlock:
    """One code block of an answer. `number`: its place among them, from 1; `code`: what it says, without its fence."""

    number: int
    language: str
    code: str

    @cached_property
    def fenced(self) -> str:
        return fenced(self.code, self.language)

    @cached_property
    def shell(self) -> ShellBlock | None:
        """The commands in it, or None if it holds other code. A block without a language holds commands."""
        from app.commands.blocks import shell_blocks  # Takes 4 ms, for which no frame should wait.

        return next(iter(shell_blocks(self.fenced)), None)

    @property
    def command(self) -> str:
        """The text for a shell: the commands without prompts and output; empty if it holds other code."""
        return self.shell.command.strip() if self.shell is not None else ""

    @property
    def question(self) -> str:
        """A question that asks for an explanation of the block."""
        code = self.command or self.code
        one_line = "\n" not in code
        what = ("this command" if one_line else "these commands") if self.command else "this code"
        return f"Explain {what}: {code}" if one_line else f"Explain {what}:\n\n{self.fenced}"

    def span_in_code(self, span: Span) -> Span:
        """A span of the command of `shell` as a span of `code`."""
        shell = self.shell
        if shell is None:
            return 0, 0
        opening = self.fenced.index("\n") + 1
        start, end = shell.span_in_answer(span)
        return start - opening, end - opening


def code_block(leaf: Leaf) -> CodeBlock:
    return CodeBlock(leaf.number, leaf.language, leaf.content.plain)


def code_blocks(turn: Turn) -> list[CodeBlock]:
    """The code blocks of the answer, in order. For a running answer, those that have ended and are verified."""
    end = closed_length(turn.reply.solid) if turn.running else len(turn.text)
    return [code_block(leaf) for leaf in leaves(turn.text) if leaf.kind == "code" and leaf.source[1] <= end]
