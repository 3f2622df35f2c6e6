"""Meanings of the flags of commonly used programs, from flags.toml."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FILE = Path(__file__).with_name("flags.toml")

_BETWEEN = re.compile(r"\|\|?|&&|;|\n|\$\(|`")
_BEFORE = frozenset({"sudo", "doas", "time", "nohup", "env", "command", "exec", "do", "then"})
BARE = frozenset({"ar", "ps", "tar"})
"""Programs whose first word may hold options without a dash."""
_CLUSTER = re.compile(r"-[A-Za-z0-9]{2,}")


@dataclass(frozen=True)
class Flag:
    """A flag of a command, as it is written there, and what it means."""

    program: str
    flag: str
    meaning: str


@cache
def meanings() -> Mapping[str, Mapping[str, str]]:
    """Program -> flag -> meaning."""
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def flags_of(command: str) -> list[Flag]:
    """The flags of a command line that have a known meaning, in order, each once.

    >>> [(one.flag, one.meaning) for one in flags_of("tar -xzf a.tar.gz | head -n 3")][:2]
    [('-x', 'extracts'), ('-z', 'through gzip')]
    """
    found: dict[tuple[str, str], Flag] = {}
    for part in _BETWEEN.split(command):
        for one in _of_program(part):
            found.setdefault((one.program, one.flag), one)
    return list(found.values())


def _of_program(part: str) -> Iterator[Flag]:
    words = _words(part)
    while words and (words[0] in _BEFORE or re.fullmatch(r"\w+=.*", words[0])):
        words = words[1:]
    if not words:
        return
    program = words[0].rpartition("/")[2]
    known = meanings().get(program)
    if known is None:
        return
    for at, word in enumerate(words[1:], 1):
        after = words[at + 1] if at + 1 < len(words) else ""
        bare = at == 1 and program in BARE and word.isalpha()
        for flag in _bare_letters(word, known) if bare else _known_flags(word, after, known, program):
            yield Flag(program, flag, known[flag])


def _known_flags(word: str, after: str, known: Mapping[str, str], program: str) -> Iterator[str]:
    """The known flags in a word: one flag, with its argument in this word or the next, or several letters in one."""
    if f"{word} {after}" in known:
        yield f"{word} {after}"
    elif word in known:
        yield word
    elif word.startswith("--"):
        if word.partition("=")[0] in known:
            yield word.partition("=")[0]
    elif _CLUSTER.fullmatch(word):
        letters = [f"-{letter}" for letter in word[1:]]
        if letters[0] in known and any(letter not in known for letter in letters[1:]):
            yield letters[0]  # The rest is its argument, as in -n5 and -F,
        else:
            yield from (letter for letter in letters if letter in known)
    elif word[:2] in known and word.startswith("-"):
        yield word[:2]
    elif program == "dd" and f"{word.partition('=')[0]}=" in known:
        yield f"{word.partition('=')[0]}="


def _bare_letters(word: str, known: Mapping[str, str]) -> Iterator[str]:
    """The known letters of options without a dash, of which some have their own meaning: `ps aux`, `tar xzf`."""
    if word in known:
        yield word
    else:
        flags = (letter if letter in known else f"-{letter}" for letter in word)
        yield from (flag for flag in flags if flag in known)


def _words(part: str) -> list[str]:
    try:
        return shlex.split(part)
    except ValueError:  # A quote that the split has broken.
        return part.split()
