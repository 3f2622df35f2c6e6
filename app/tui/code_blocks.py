"""The code blocks of an answer, as things that can be copied, explained or put into the person's shell."""

from __future__ import annotations

from dataclasses import dataclass

from app.tui.markdown.blocks import closed_length, split
from app.tui.markdown.parser import leaves
from app.tui.turn import Turn

SHELLS = ("", "sh", "bash", "zsh", "fish", "shell", "console", "shell-session", "terminal")
"""Languages of a fence that holds commands. A block that names none is one too: people ask for commands here."""


@dataclass(frozen=True)
class CodeBlock:
    """One code block of an answer that has ended."""

    number: int
    """Its place among the blocks of the answer, from 1."""
    count: int
    """How many blocks the answer has."""
    language: str
    code: str
    """What the block says, without its fence."""
    command: str
    """What can be put into a shell; empty if the block holds no commands."""

    @property
    def question(self) -> str:
        """A question that has the block explained."""
        one_line = "\n" not in self.code
        what = ("this command" if one_line else "these commands") if self.command else "this code"
        return f"Explain {what}: {self.code}" if one_line else f"Explain {what}:\n\n{self.fenced}"

    @property
    def fenced(self) -> str:
        """The block as Markdown of its own."""
        marks = "```"
        while marks in self.code:
            marks += "`"
        return f"{marks}{self.language}\n{self.code}\n{marks}"


def code_blocks(turn: Turn) -> list[CodeBlock]:
    """The code blocks of the answer in their order. Of a running answer: those that have ended and are verified."""
    code = [leaf for leaf in leaves(turn.text) if leaf.kind == "code"]
    end = closed_length(turn.reply.solid) if turn.running else len(turn.text)
    blocks: list[CodeBlock] = []
    for leaf in code:
        if leaf.source[1] <= end:
            fence = next((block for block in split(leaf.text) if block.fenced), None)
            language, said = (fence and fence.language) or "", leaf.content.plain
            command = said.strip() if language.lower() in SHELLS else ""
            blocks.append(CodeBlock(leaf.number, len(code), language, said, command))
    return blocks
