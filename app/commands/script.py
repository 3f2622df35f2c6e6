"""What a shell command consists of: words, redirections, and simple commands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

Span = tuple[int, int]
"""Start and end in the parsed text, in characters."""


def name_set(names: str) -> frozenset[str]:
    return frozenset(names.split())


@dataclass(frozen=True, slots=True)
class Word:
    """One word as the program gets it: `value` has no quotes. Expansions (`$x`) stay as written."""

    value: str
    span: Span
    plain: bool = True
    """Whether it contains no variable and no substitution."""
    pattern: bool = False
    """Whether it has an unquoted `*`, `?`, `[` or `{a,b}`, so that it may match many names."""
    verbatim: int | None = None
    """The offset of `value` in the text, if the text contains it literally."""
    substitutions: tuple[SimpleCommand, ...] = ()
    """The commands whose output the shell substitutes into it."""


@dataclass(frozen=True, slots=True)
class Redirection:
    """A file for input or output: `2> errors.txt`."""

    operator: str
    target: Word | None
    span: Span

    @property
    def replaces(self) -> bool:
        """Whether the file is truncated first."""
        return self.operator in (">", ">|", "&>", ">&")

    @property
    def appends(self) -> bool:
        return self.operator in (">>", "&>>")


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """A program and its words, without the operators around it."""

    words: tuple[Word, ...]
    span: Span
    redirections: tuple[Redirection, ...] = ()
    assignments: tuple[Word, ...] = ()
    """`NAME=value` before the program."""
    feeders: tuple[SimpleCommand, ...] = ()
    """The commands before it in a pipe, whose output it reads."""
    documents: tuple[Word, ...] = ()
    """Texts in the script that it reads: after `<<` and `<<<`."""
    outer: SimpleCommand | None = None
    """The command that runs this one, such as `sudo`, `xargs` or `find`."""
    far: bool = False
    """Whether it runs on another machine or in a container."""

    @property
    def program(self) -> str:
        """The program's name without its folder; empty for a redirection without a program."""
        return self.words[0].value.rpartition("/")[2] if self.words else ""

    @property
    def outers(self) -> Iterator[SimpleCommand]:
        """The commands that run this one, from the innermost to the outermost."""
        outer = self.outer
        while outer is not None:
            yield outer
            outer = outer.outer

    def runs_under(self, *programs: str) -> bool:
        return any(outer.program in programs for outer in self.outers)


@dataclass(frozen=True, slots=True)
class Script:
    """A parsed text: its simple commands in order, including those in substitutions and quoted scripts."""

    commands: tuple[SimpleCommand, ...]
    unreadable: tuple[Span, ...] = ()
    """The spans where the text is not shell, or nested too deeply."""
    forks: tuple[Span, ...] = field(default=())
    """Functions that recursively start themselves twice (fork bombs)."""
