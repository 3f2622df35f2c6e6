"""Turns a key press into a question for a model, and reads the answer.

Shell Guide gets only the words, as in its training. Any other model gets instructions.
"""

from __future__ import annotations

import platform
import re

from app.commands.blocks import shell_blocks
from app.shell.near_names import nearest
from app.shell.words import BEFORE, commands, programs

WHOLE = re.compile(r"^ {0,3}(`{3,}|~{3,})[^\n]*\n.*?\n {0,3}\1[ \t]*$", re.M | re.S)
INLINE = re.compile(r"^`([^`\n]+)`$")
MOST_ERROR = 2000
"""Number of last characters of an error that a model is shown: the end says what went wrong."""


def question_for(words: str, shell: str, *, pair: bool) -> str:
    """The question for a command that does what the words say. `pair`: Shell Guide answers."""
    words = " ".join(words.split())
    if pair:
        return words
    return f"{_wanted(shell)} What it must do: {words}"


def question_of_failure(command: str, status: int | None, error: str, shell: str) -> str:
    """The question for a command to run instead of one that failed."""
    ended = "failed" if status is None else f"ended with exit code {status}"
    said = f"\nIt printed:\n{error.strip()[-MOST_ERROR:]}" if error.strip() else ""
    return f"{_wanted(shell)} It must do what this command was meant to do, which {ended}: {command}{said}"


def command_of(answer: str) -> str | None:
    """The command in an answer: its first block of shell code, or the line if there is only one, in backquotes.

    Leading prompts are removed. The command may have several lines.
    """
    for block in shell_blocks(answer):
        return block.command.strip() or None
    alone = INLINE.match(answer.strip())
    return alone[1].strip() or None if alone else None


def whole_command(answer: str) -> bool:
    """Whether an answer that is still being written already has a complete block, so that the rest is not needed."""
    return WHOLE.search(answer) is not None


def same_words(command: str, other: str) -> bool:
    """Whether another command runs the same program first and has each word of this one, or a similar one."""
    theirs = [word.value for words in commands(other) for word in words]
    ours = [word.value for words in commands(command) for word in words if not word.value.startswith("-")]
    same = programs(command)[:1] == programs(other)[:1]
    return same and all(one in theirs or one in BEFORE or nearest(one, theirs) is not None for one in ours)


def _wanted(shell: str) -> str:
    return (
        f"Answer with one command for {shell or 'a shell'} on {platform.system()}, in a code block, and nothing else. "
        "If there is none, say why in one sentence."
    )
