"""Splits a command line into words with their positions, so that one can be replaced and the rest stays as typed.

It knows quotes, backslashes, operators and comments; what is inside `$(…)` or backquotes is part of its word.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import NamedTuple

from app.commands.wrappers import WRAPPERS, after_options

OPERATOR = re.compile(r"\|\||&&|\|&|;;|[;&|\n()]")
REDIRECTION = re.compile(r"\d*(?:>>|>&|<<<|<<|<&|&>|>\||>|<)")
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
BEFORE = {"sudo", "doas", "time", "nohup", "env", "command", "exec", "builtin", "then", "do", "else", "!", "{", "if"}
"""Words after which the name of a program comes."""


class Word(NamedTuple):
    """A word: its value without quotes, and its position in the line."""

    value: str
    start: int
    end: int


def commands(line: str) -> list[list[Word]]:
    """The simple commands of a line, in order, each as its words. Redirections and their files are left out."""
    found: list[list[Word]] = [[]]
    skip = False
    for kind, word in _pieces(line):
        if kind == "operator":
            found.append([])
        elif kind == "redirection":
            skip = True
        elif skip:
            skip = False
        else:
            found[-1].append(word)
    return [words for words in found if words]


def program(words: list[Word]) -> Word | None:
    """The word that names the program of a simple command, or None if it only sets variables."""
    at, before = 0, ""
    while at < len(words):
        value = words[at].value
        if before and value.startswith("-"):  # `sudo -u bob tar`.
            at = max(at + 1, after_options(words, at, WRAPPERS[before].valued if before in WRAPPERS else ()))
        elif value in BEFORE:
            at, before = at + 1, value
        elif ASSIGNMENT.match(value):
            at += 1
        else:
            return words[at]
    return None


def calls(line: str) -> Iterator[tuple[Word, list[Word]]]:
    """The word that names the program of each simple command, and the words after it."""
    for words in commands(line):
        if (name := program(words)) is not None:
            yield name, words[words.index(name) + 1 :]


def programs(line: str) -> list[str]:
    """The names of the programs of a line, in order."""
    return [name.value for name, _ in calls(line)]


def replaced(line: str, word: Word, value: str) -> str:
    """The line with another value for one word, quoted if necessary."""
    return line[: word.start] + quoted(value) + line[word.end :]


def quoted(value: str) -> str:
    """A value as one shell word. A leading `~/` stays outside the quotes."""
    if value.startswith("~/"):
        return "~/" + (shlex.quote(value[2:]) if value[2:] else "")
    return shlex.quote(value)


def _pieces(line: str) -> Iterator[tuple[str, Word]]:
    at = 0
    while at < len(line):
        if line[at] in " \t":
            at += 1
        elif line[at] == "#":
            return
        elif (found := REDIRECTION.match(line, at)) is not None:
            yield "redirection", Word(found[0], at, found.end())
            at = found.end()
        elif (found := OPERATOR.match(line, at)) is not None:
            yield "operator", Word(found[0], at, found.end())
            at = found.end()
        else:
            word = _word(line, at)
            yield "word", word
            at = word.end


def _word(line: str, start: int) -> Word:
    """The word that begins at `start`. An unclosed quote extends to the end of the line."""
    value: list[str] = []
    at = start
    while at < len(line) and line[at] not in " \t\n;&|<>()":
        if line[at] == "\\":
            value.append(line[at + 1 : at + 2])
            at += 2
        elif line[at] in "'\"":
            end = _closing(line, at)
            inside = line[at + 1 : end]
            value.append(inside if line[at] == "'" else re.sub(r'\\(["\\$`])', r"\1", inside))
            at = end + 1
        elif line.startswith("$(", at) or line[at] == "`":
            end = _substitution(line, at)
            value.append(line[at:end])
            at = end
        else:
            value.append(line[at])
            at += 1
    return Word("".join(value), start, min(at, len(line)))


def _closing(line: str, start: int) -> int:
    quote = line[start]
    at = start + 1
    while at < len(line) and line[at] != quote:
        at += 2 if line[at] == "\\" and quote == '"' else 1
    return min(at, len(line))


def _substitution(line: str, start: int) -> int:
    if line[start] == "`":
        end = line.find("`", start + 1)
        return len(line) if end < 0 else end + 1
    depth = 0
    for at in range(start + 1, len(line)):
        depth += (line[at] == "(") - (line[at] == ")")
        if depth == 0:
            return at + 1
    return len(line)
