"""Reads one word of a syntax tree: its text without quotes, its span, and the commands in it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.commands.quotes import ansi_c, double_quoted, unescaped
from app.commands.script import SimpleCommand, Span, Word

if TYPE_CHECKING:
    from tree_sitter import Node

DEEPEST = 60
"""Most nested brackets. More are reported as unreadable."""
SUBSTITUTIONS = frozenset({"command_substitution", "process_substitution"})
LITERALS = frozenset(
    {"word", "number", "extglob_pattern", "regex", "variable_name", "special_variable_name", "test_operator"}
)
EXPANSIONS = frozenset({"simple_expansion", "expansion", "arithmetic_expansion", "brace_expression"})
WORDS = SUBSTITUTIONS | LITERALS | EXPANSIONS | {"string", "raw_string", "concatenation", "ansi_c_string"}
_BRACES = re.compile(r"\{[^{}]*(?:,|\.\.)[^{}]*\}")
_PATTERN = re.compile(r"(?<!\\)[*?\[]")

Substitution = Callable[["Node", int], list[SimpleCommand]]
"""Reads the commands of `$(…)`; the number is its nesting depth."""


@dataclass(frozen=True, slots=True)
class Places:
    """Maps the text of a tree to offsets in the caller's text.

    `whole`: the span for everything in it, for a script whose own text is not part of the caller's text.
    """

    text: str
    start: int = 0
    whole: Span | None = None

    def source(self, node: Node) -> str:
        return self.text[node.start_byte : node.end_byte]

    def span(self, node: Node) -> Span:
        return self.at(node.start_byte, node.end_byte)

    def at(self, start: int, end: int) -> Span:
        return self.whole or (self.start + start, self.start + end)


@dataclass(frozen=True, slots=True)
class _Value:
    """The text without quotes; whether it has no expansion; whether it is a pattern; the commands in it."""

    text: str
    plain: bool = True
    pattern: bool = False
    commands: tuple[SimpleCommand, ...] = ()


class WordReader:
    """Makes a `Word` of a node. Parts nested too deeply are added to `unreadable`."""

    def __init__(self, places: Places, substitution: Substitution, unreadable: list[Span]) -> None:
        self._places = places
        self._substitution = substitution
        self._unreadable = unreadable

    def word(self, node: Node, depth: int) -> Word:
        value = self._value(node, depth)
        return Word(
            value.text,
            self._places.span(node),
            value.plain,
            value.pattern,
            self._verbatim(node, value.text),
            value.commands,
        )

    def _verbatim(self, node: Node, value: str) -> int | None:
        """The offset of the value, if only its surrounding quotes were removed."""
        if self._places.whole is None:
            for quote in (0, 1):
                if self._places.text[node.start_byte + quote : node.end_byte - quote] == value:
                    return self._places.start + node.start_byte + quote
        return None

    def _value(self, node: Node, depth: int) -> _Value:
        source, kind = self._places.source(node), node.type
        if depth > DEEPEST:
            self._unreadable.append(self._places.span(node))
            return _Value(source, plain=False)
        if kind == "raw_string":
            return _Value(source[1:-1])
        if kind == "ansi_c_string":
            return _Value(ansi_c(source[2:-1]))
        if kind in LITERALS:
            return _Value(unescaped(source), pattern=_PATTERN.search(source) is not None)
        if kind in ("string", "translated_string"):
            return self._string(node, depth)
        if kind == "concatenation" or (kind == "variable_assignment" and node.children[-1].type != "array"):
            return self._joined(node, depth)
        commands = self._inside(node, depth)
        plain = kind not in EXPANSIONS and kind not in SUBSTITUTIONS and not node.named_child_count
        return _Value(source, plain, kind not in EXPANSIONS and _PATTERN.search(source) is not None, commands)

    def _joined(self, node: Node, depth: int) -> _Value:
        parts = [self._value(child, depth + 1) for child in node.children]
        text = "".join(part.text for part in parts)
        opened = any(child.type == "word" and self._places.source(child) == "{" for child in node.children)
        braces = opened and _BRACES.search(text) is not None
        return _Value(
            text,
            all(part.plain for part in parts),
            braces or any(part.pattern for part in parts),
            tuple(command for part in parts for command in part.commands),
        )

    def _string(self, node: Node, depth: int) -> _Value:
        """A text in double quotes. Between its expansions, a backslash keeps some characters as they are."""
        pieces: list[str] = []
        commands: list[SimpleCommand] = []
        text, at = self._places.text, node.start_byte + 1
        for child in node.named_children:
            if child.type == "string":  # The string in $"…".
                return self._string(child, depth + 1)
            if child.type == "string_content":
                continue
            pieces += double_quoted(text[at : child.start_byte]), self._places.source(child)
            commands += self._inside(child, depth + 1)
            at = child.end_byte
        plain = not pieces
        end = node.end_byte if node.children[-1].is_missing else node.end_byte - 1
        pieces.append(double_quoted(text[at:end]))
        return _Value("".join(pieces), plain, commands=tuple(commands))

    def _inside(self, node: Node, depth: int) -> tuple[SimpleCommand, ...]:
        """The commands of the substitutions in an expansion."""
        if depth > DEEPEST:
            self._unreadable.append(self._places.span(node))
            return ()
        if node.type in SUBSTITUTIONS:
            return tuple(self._substitution(node, depth + 1))
        return tuple(command for child in node.named_children for command in self._inside(child, depth + 1))
