"""What a shell command consists of: words, redirections, and simple commands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

Span = tuple[int, int]
"""Start and end in the text that was parsed, in characters."""


def name_set(names: str) -> frozenset[str]:
    """The set of names in a text, separated by white space."""
    return frozenset(names.split())


@dataclass(frozen=True, slots=True)
class Word:
    """One word as the program gets it: `value` has no quotes. What the shell would replace (`$x`) stays as written."""

    value: str
    span: Span
    plain: bool = True
    """No variable and no substitution is in it."""
    pattern: bool = False
    """It has an unquoted `*`, `?`, `[` or `{a,b}`: it may match many names."""
    verbatim: int | None = None
    """The place where `value` begins in the text, if the text contains it as it is."""
    substitutions: tuple[SimpleCommand, ...] = ()
    """The commands whose output the shell puts in its place."""


@dataclass(frozen=True, slots=True)
class Redirection:
    """A file that input comes from, or output goes to: `2> errors.txt`."""

    operator: str
    target: Word | None
    span: Span

    @property
    def replaces(self) -> bool:
        """The file is emptied before anything is written."""
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
    """It runs on another machine, or in a container."""

    @property
    def program(self) -> str:
        """The program's name without its folder; empty for a redirection alone."""
        return self.words[0].value.rpartition("/")[2] if self.words else ""

    @property
    def outers(self) -> Iterator[SimpleCommand]:
        """What runs this command, from the inside to the outside."""
        outer = self.outer
        while outer is not None:
            yield outer
            outer = outer.outer

    def runs_under(self, *programs: str) -> bool:
        return any(outer.program in programs for outer in self.outers)


@dataclass(frozen=True, slots=True)
class Script:
    """A parsed text: its simple commands in their order, those in substitutions and quoted scripts too."""

    commands: tuple[SimpleCommand, ...]
    unreadable: tuple[Span, ...] = ()
    """The places where the text is not shell, or too deep to follow."""
    forks: tuple[Span, ...] = field(default=())
    """Functions that start themselves twice, again and again."""
