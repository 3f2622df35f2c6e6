"""The texts that a command reads: here-documents, and what `echo`, `printf` or `cat` writes into its pipe."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain, dropwhile, zip_longest

from app.commands.arguments import Arguments
from app.commands.quotes import ansi_c
from app.commands.script import SimpleCommand, Word, name_set
from app.commands.wrappers import SHELLS

_OPEN_SHELLS = name_set(
    "ssh su sudo doas pkexec run0 runuser chroot arch-chroot nsenter unshare at batch parallel"  # Without a command.
)
_PASS_ON = name_set("tee cat sudo")
_OPTION = re.compile(r"-[neE]+")
_FIELD = re.compile(r"(?<!%)%[^%a-zA-Z]*[a-zA-Z]")
_MOST_ROWS = 50
"""Most times that `printf` uses its format again."""


def texts(command: SimpleCommand) -> Iterator[Word]:
    """The texts on its standard input, as far as the script has them."""
    yield from command.documents
    if command.runs_under("xargs", "parallel"):  # They keep the pipe for themselves.
        return
    for feeder in reversed(command.feeders):
        if feeder.program in ("echo", "printf") and len(feeder.words) > 1:
            yield _written(feeder)
        elif feeder.program == "cat" and feeder.documents:
            yield from feeder.documents
        elif feeder.program not in _PASS_ON:
            return


def runs_input(command: SimpleCommand) -> bool:
    """Whether it is a shell that runs what it reads, if nothing else is named."""
    if command.program in SHELLS:
        return reads_program(command.words[1:])
    standard = any(word.value == "/dev/stdin" for word in command.words[1:2])
    return command.program in _OPEN_SHELLS or (standard and command.program in (".", "source"))


def reads_program(words: Iterable[Word]) -> bool:
    """Whether an interpreter with these words, none of them code, reads its program from its standard input."""
    given = tuple(words)
    named = any(word.value in ("-s", "-", "/dev/stdin") for word in given)
    return named or not Arguments(given, ("-o", "-O", "--rcfile")).operands


def _written(feeder: SimpleCommand) -> Word:
    """What `echo` or `printf` writes, as one word."""
    words = feeder.words[1:]
    if feeder.program == "echo":
        words = tuple(dropwhile(lambda word: _OPTION.fullmatch(word.value), words)) or words
    if len(words) == 1 and "\\" not in words[0].value:
        return words[0]
    values = [word.value for word in words]
    text = _formatted(values[0], values[1:]) if feeder.program == "printf" else ansi_c(" ".join(values))
    return Word(text, (words[0].span[0], words[-1].span[1]), all(word.plain for word in words))


def _formatted(form: str, values: list[str]) -> str:
    first, *others = _FIELD.split(ansi_c(form))
    if not others:
        return first
    rows = [values[at : at + len(others)] for at in range(0, len(values) or 1, len(others))][:_MOST_ROWS]
    return "".join(f"{first}{''.join(chain(*zip_longest(row, others, fillvalue='')))}" for row in rows)
