"""Bash text split into simple commands, as far as a judge of answers needs it.

It knows quotes, escapes, operators, redirections, here-documents, comments, and substitutions inside words. Python's
`shlex` is not enough: it cannot tell a quoted `>` from a redirection.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_OPERATOR = re.compile(r"&>>|&>|\|\||&&|;;&?|\|&|\d*(?:<<<|<<-?|>>|>\||>&|<&|<>|>|<)|[|&;()\n]")
_ENDS = set(" \t\n|&;()<>")
_KEYWORDS = {"do", "then", "else", "elif", "if", "while", "until", "!", "{", "}", "done", "fi", "esac", "time"}
_NAMES_ONLY = {"for", "select", "case", "function"}
"""Words after which names stand and no command."""


@dataclass
class SimpleCommand:
    """One program with its words, its redirections, and whether a pipe feeds it."""

    words: list[str] = field(default_factory=list)
    redirections: list[tuple[str, str]] = field(default_factory=list)
    """(operator without its number, target); for `<<`, the document."""
    piped: bool = False


def simple_commands(text: str) -> list[SimpleCommand]:
    """All simple commands of a text, with those inside substitutions after the one that holds them."""
    scanner = _Scanner(text)
    scanner.run()
    return [one for one in scanner.found if one.words or one.redirections]


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._nested: list[str] = []
        self._wanted: str | None = None
        self._documents: list[tuple[SimpleCommand, str]] = []
        self._command = SimpleCommand()
        self.found: list[SimpleCommand] = []

    def run(self) -> None:
        text = self._text
        while self._at < len(text):
            if text[self._at] in " \t" or text.startswith("\\\n", self._at):
                self._at += 1 if text[self._at] in " \t" else 2
            elif text[self._at] == "#":
                end = text.find("\n", self._at)
                self._at = len(text) if end < 0 else end
            elif text.startswith(("<(", ">("), self._at):
                self._word()
            elif operator := _OPERATOR.match(text, self._at):
                self._at = operator.end()
                self._operator(operator.group().lstrip("0123456789"))
            else:
                self._word()
        self._close(piped=False)

    def _operator(self, operator: str) -> None:
        words = self._command.words
        if words[:1] == ["[["] and "]]" not in words:
            words.append(operator)
            return
        if operator.startswith(("<", ">", "&>")):
            self._wanted = operator
            return
        self._close(piped=operator in ("|", "|&"))
        if operator == "\n":
            for command, mark in self._documents:
                body = re.compile(rf"(.*?)^\t*{re.escape(mark)}$\n?", re.DOTALL | re.MULTILINE).match(
                    self._text, self._at
                )
                command.redirections.append(("<<", body.group(1) if body else self._text[self._at :]))
                self._at = body.end() if body else len(self._text)
            self._documents = []

    def _close(self, *, piped: bool) -> None:
        command = self._command
        while command.words and command.words[0] in _KEYWORDS:
            del command.words[0]
        if command.words and command.words[0] in _NAMES_ONLY:
            command.words = []
        self.found.append(command)
        for nested in self._nested:
            self.found += simple_commands(nested)
        self._nested = []
        self._command = SimpleCommand(piped=piped)

    def _word(self) -> None:
        text, parts = self._text, []
        while self._at < len(text):
            char = text[self._at]
            if text.startswith(("<(", ">("), self._at) and not parts:
                parts.append(self._substitution(2))
            elif char in _ENDS:
                break
            elif char == "\\":
                parts.append(text[self._at + 1 : self._at + 2].replace("\n", ""))
                self._at += 2
            elif char == "'":
                parts.append(self._until("'"))
            elif char == '"':
                parts.append(self._double())
            else:
                parts.append(self._expansion() or self._plain())
        word = "".join(parts)
        if self._wanted is None:
            self._command.words.append(word)
        elif self._wanted.startswith("<<") and self._wanted != "<<<":
            self._documents.append((self._command, word))
        else:
            self._command.redirections.append((self._wanted, word))
        self._wanted = None

    def _plain(self) -> str:
        self._at += 1
        return self._text[self._at - 1]

    def _until(self, mark: str) -> str:
        """The text from after this character to the mark, or to the end."""
        end = self._text.find(mark, self._at + 1)
        end = len(self._text) if end < 0 else end
        inside, self._at = self._text[self._at + 1 : end], end + 1
        return inside

    def _double(self) -> str:
        self._at += 1
        parts = []
        while self._at < len(self._text) and self._text[self._at] != '"':
            if self._text[self._at] == "\\" and self._text[self._at + 1 : self._at + 2] in ("$", "`", '"', "\\", "\n"):
                self._at += 1
                parts.append(self._plain())
            else:
                parts.append(self._expansion() or self._plain())
        self._at += 1
        return "".join(parts)

    def _expansion(self) -> str | None:
        """What `$(...)`, `${...}` or a pair of backticks stands for; None: there is none here."""
        if self._text[self._at] == "`":
            self._nested.append(self._until("`"))
            return "$(…)"
        if self._text.startswith("$((", self._at):
            return self._substitution(2, commands=False)
        if self._text.startswith("$(", self._at):
            return self._substitution(2)
        if self._text.startswith("${", self._at):
            return "${" + self._until("}").lstrip("{") + "}"
        return None

    def _substitution(self, opening: int, *, commands: bool = True) -> str:
        """Step over balanced brackets; what stands in them are commands, too."""
        begin = self._at
        start = self._at = self._at + opening
        depth, quote = 1, ""
        while self._at < len(self._text) and depth:
            char = self._text[self._at]
            if quote:
                quote = "" if char == quote else quote
            elif char in "'\"":
                quote = char
            else:
                depth += (char == "(") - (char == ")")
            self._at += 2 if char == "\\" else 1
        if commands:
            self._nested.append(self._text[start : self._at - (depth == 0)])
        return f"{self._text[begin:start]}…)"
