"""Parses shell text into simple commands, with tree-sitter's grammar of Bash.

The parser is loaded with the first command: that takes some 15 ms. It reads a copy of the text in which each
placeholder (`<file>`, `{{path/to/file}}`) and each character beyond ASCII is a letter. So places in the tree are places
in the text. What a wrapper such as `sudo` or `sh -c '…'` runs is parsed too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from app.commands.quotes import ansi_c, double_quoted, unescaped
from app.commands.script import Redirection, Script, SimpleCommand, Span, Word
from app.commands.wrappers import SHELLS, inner_commands

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

LONGEST = 20_000
"""Characters. A longer text is not parsed: no command is that long, and a hostile one would cost seconds."""
DEEPEST = 60
"""Nested brackets. More are reported as unreadable."""
SCRIPTS_DEEP = 6
"""Scripts in quotes in scripts in quotes."""
MOST_COMMANDS = 2_000
"""Commands of one text, with what they run. The rest is reported as unreadable."""

PLACEHOLDER = re.compile(
    r"\{\{[^{}\n]*\}\}"
    r"|(?<![<>&\w)])<[A-Za-z](?:[\w./:|,@-]| (?=[\w./-]))*(?:\.\.\.)?>(?=[\s\"'`;|&)/.:@,=<\]-]|$)",
    re.MULTILINE,
)
"""What stands for a name that the person fills in. `<in>out` without a space is two redirections."""
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")
_PATTERN = re.compile(r"(?<!\\)[*?\[]")
_LITERALS = {"word", "number", "extglob_pattern", "regex", "variable_name", "special_variable_name", "test_operator"}
_EXPANSIONS = {"simple_expansion", "expansion", "arithmetic_expansion", "brace_expression"}
_SUBSTITUTIONS = {"command_substitution", "process_substitution"}
_WORDS = {*_LITERALS, *_EXPANSIONS, *_SUBSTITUTIONS, "string", "raw_string", "concatenation", "ansi_c_string"}
_ECHOES = ("echo", "printf")


def parse(text: str) -> Script:
    """The simple commands of a text. What cannot be read is named by its place, and never guessed."""
    if len(text) > LONGEST:
        return Script((), ((0, len(text)),))
    reader = _Reader(text)
    reader.read()
    return Script(tuple(reader.commands), tuple(reader.unreadable), tuple(reader.forks))


@cache
def _parser() -> Parser:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


def masked(text: str) -> str:
    """The text with a letter for each character of a placeholder and each one beyond ASCII; as long as before."""
    return _BEYOND_ASCII.sub("x", PLACEHOLDER.sub(lambda found: "x" * len(found.group()), text))


class _Reader:
    """One pass over a text.

    `whole`: the place of every word, for a script whose own places are not in the text. `expanded`: the substitutions
    in it have been read before.
    """

    def __init__(
        self, text: str, start: int = 0, whole: Span | None = None, nested: int = 0, outer: SimpleCommand | None = None,
        far: bool = False, expanded: bool = False,
    ) -> None:  # fmt: skip
        self.text = text
        self.commands: list[SimpleCommand] = []
        self.unreadable: list[Span] = []
        self.forks: list[Span] = []
        self._start = start
        self._whole = whole
        self._nested = nested
        self._outer = outer
        self._far = far
        self._expanded = expanded

    def read(self) -> None:
        root = _parser().parse(masked(self.text).encode("ascii")).root_node
        if root.has_error:
            self.unreadable.append(self._place(*_first_error(root)))
        self._statement(root, 0)

    # ---- statements --------------------------------------------------------------------------------------------------

    def _statement(
        self, node: Node, depth: int, feeders: tuple[SimpleCommand, ...] = (), redirections: tuple[Node, ...] = ()
    ) -> list[SimpleCommand]:
        """Read a statement; returns its commands. `redirections`: nodes around it."""
        if depth > DEEPEST or len(self.commands) > MOST_COMMANDS:
            self.unreadable.append(self._span(node))
            return []
        kind = node.type
        if kind in ("command", "declaration_command", "unset_command"):
            return self._command(node, depth, feeders, redirections)
        if kind == "redirected_statement":
            return self._redirected(node, depth, feeders)
        if kind == "pipeline":
            return self._pipeline(node, depth, feeders)
        if kind == "ERROR":
            return []
        if kind == "function_definition" and self._forks(node):
            self.forks.append(self._span(node))
        if kind in _SUBSTITUTIONS or kind == "variable_assignment":
            redirections = ()
        found: list[SimpleCommand] = []
        for child in node.named_children:
            found += self._statement(child, depth + 1, feeders)
        return found

    def _redirected(self, node: Node, depth: int, feeders: tuple[SimpleCommand, ...]) -> list[SimpleCommand]:
        body = node.child_by_field_name("body")
        redirects = tuple(node.children_by_field_name("redirect"))
        if body is not None and body.type in ("command", "declaration_command"):
            return self._command(body, depth + 1, feeders, redirects)
        if body is not None and body.type == "pipeline":
            # The grammar ties `a | b > file` to the pipe; the shell ties it to `b`.
            return self._pipeline(body, depth + 1, feeders, redirects)
        found = self._statement(body, depth + 1, feeders) if body is not None else []
        alone = self._redirections(redirects, depth)
        if alone:
            found.append(self._add(SimpleCommand((), self._span(node), tuple(alone[0]), feeders=feeders)))
        return found

    def _pipeline(
        self, node: Node, depth: int, feeders: tuple[SimpleCommand, ...], redirections: tuple[Node, ...] = ()
    ) -> list[SimpleCommand]:
        found: list[SimpleCommand] = []
        stages = node.named_children
        for number, stage in enumerate(stages):
            last = redirections if number == len(stages) - 1 else ()
            if last and stage.type == "command":
                found += self._command(stage, depth + 1, (*feeders, *found), last)
            else:
                found += self._statement(stage, depth + 1, (*feeders, *found))
        return found

    def _command(
        self, node: Node, depth: int, feeders: tuple[SimpleCommand, ...], around: tuple[Node, ...] = ()
    ) -> list[SimpleCommand]:
        words: list[Word] = []
        assignments: list[Word] = []
        redirects: list[Node] = [*around]
        for child in node.children:
            if child.type == "variable_assignment" and node.type == "command":
                assignments.append(self._word(child, depth))
            elif child.type in ("file_redirect", "herestring_redirect", "heredoc_redirect"):
                redirects.append(child)
            elif child.type == "command_name":
                words.append(self._word(child.children[0] if child.children else child, depth))
            elif child.type not in ("comment", "\n", "ERROR"):
                words.append(self._word(child, depth))
        redirections, more, documents, readers = self._redirections(tuple(redirects), depth)
        words += more
        words.sort(key=lambda word: word.span)
        places = [self._span(node), *(word.span for word in more), *(one.span for one in redirections)]
        span = (min(place[0] for place in places), max(place[1] for place in places))
        command = SimpleCommand(
            tuple(words),
            span,
            tuple(redirections),
            tuple(assignments),
            feeders,
            tuple(documents),
            self._outer,
            self._far,
        )
        found = [self._add(command), *self._run_by(command)]
        for reader in readers:  # `cat <<END | sort`: the rest of the pipe stands before the text.
            found += self._statement(reader, depth + 1, (*feeders, found[0]))
        return found

    def _add(self, command: SimpleCommand) -> SimpleCommand:
        if command.outer is None and (self._outer is not None or self._far):
            command = replace(command, outer=self._outer, far=self._far)
        self.commands.append(command)
        return command

    # ---- what a command runs -----------------------------------------------------------------------------------------

    def _run_by(self, command: SimpleCommand) -> list[SimpleCommand]:
        """The commands that a wrapper runs, added and returned."""
        found: list[SimpleCommand] = []
        todo = [command]
        while todo and len(self.commands) < MOST_COMMANDS:
            outer = todo.pop()
            inners = tuple(inner_commands(outer.words)) if outer.words else ()
            if outer.program in SHELLS and not any(inner.script for inner in inners):
                for script in (*command.documents, *_piped_scripts(command)):
                    found += self._script(script, outer)
            for inner in inners:
                far = outer.far or inner.far
                if inner.script is not None:
                    found += self._script(inner.script, replace(outer, far=far))
                    continue
                span = (inner.words[0].span[0], inner.words[-1].span[1])
                one = SimpleCommand(
                    inner.words, span, feeders=command.feeders, documents=command.documents, outer=outer, far=far
                )
                found.append(self._add(one))
                todo.append(one)
        return found

    def _script(self, word: Word, outer: SimpleCommand) -> list[SimpleCommand]:
        """The commands of a script in one word."""
        if self._nested >= SCRIPTS_DEEP:
            self.unreadable.append(word.span)
            return []
        exact = word.verbatim is not None and word.plain
        reader = _Reader(
            word.value,
            start=word.verbatim if exact and word.verbatim is not None else 0,
            whole=None if exact else word.span,
            nested=self._nested + 1,
            outer=outer,
            far=outer.far,
            expanded=not word.plain,
        )
        reader.read()
        self.commands += reader.commands
        self.unreadable += reader.unreadable
        self.forks += reader.forks
        return reader.commands

    # ---- words -------------------------------------------------------------------------------------------------------

    def _redirections(
        self, nodes: tuple[Node, ...], depth: int
    ) -> tuple[list[Redirection], list[Word], list[Word], list[Node]]:
        """Redirections; words that the grammar took for a second target; texts in the script; what reads a pipe."""
        found: list[Redirection] = []
        more: list[Word] = []
        documents: list[Word] = []
        readers: list[Node] = []
        for node in nodes:
            if node.type == "heredoc_redirect":
                for child in node.children:
                    if child.type == "heredoc_body":
                        body = self._word(child, depth)
                        documents.append(replace(body, value=self._source(child), verbatim=body.span[0]))
                    elif child.type == "file_redirect":
                        inner, extra, *_ = self._redirections((child,), depth)
                        found += inner
                        more += extra
                    elif child.is_named and child.type not in ("heredoc_start", "heredoc_end", "file_descriptor"):
                        # A pipe's further stages, `&& …`, or one more word.
                        if child.type in _WORDS:
                            more.append(self._word(child, depth))
                        else:
                            readers.append(child)
                continue
            if node.type == "herestring_redirect":
                documents += [self._word(child, depth) for child in node.named_children]
                continue
            operator = next((child.type for child in node.children if not child.is_named), "")
            targets = [self._word(child, depth) for child in node.children_by_field_name("destination")]
            found.append(Redirection(operator, targets[0] if targets else None, self._span(node)))
            more += targets[1:]
        return found, more, documents, readers

    def _word(self, node: Node, depth: int) -> Word:
        before = len(self.commands)
        value, plain, pattern = self._value(node, depth)
        span = self._span(node)
        verbatim = None
        for quote in (0, 1):
            if self.text[node.start_byte + quote : node.end_byte - quote] == value and self._whole is None:
                verbatim = self._start + node.start_byte + quote
                break
        return Word(value, span, plain, pattern, verbatim, tuple(self.commands[before:]))

    def _value(self, node: Node, depth: int) -> tuple[str, bool, bool]:
        """The text without quotes; whether it has no expansion; whether it is a pattern."""
        source = self._source(node)
        kind = node.type
        if depth > DEEPEST:
            self.unreadable.append(self._span(node))
            return source, False, False
        if kind == "raw_string":
            return source[1:-1], True, False
        if kind == "ansi_c_string":
            return ansi_c(source[2:-1]), True, False
        if kind in _LITERALS:
            return unescaped(source), True, _PATTERN.search(source) is not None
        if kind in _SUBSTITUTIONS:
            self._substitution(node, depth)
            return source, False, False
        if kind == "string" or kind == "translated_string":
            return self._string(node, depth)
        if kind == "concatenation":
            parts = [self._value(child, depth + 1) for child in node.children]
            value = "".join(part[0] for part in parts)
            braces = any(child.type == "word" and self._source(child) == "{" for child in node.children)
            return value, all(part[1] for part in parts), braces or any(part[2] for part in parts)
        for child in node.named_children:
            self._inside(child, depth + 1)
        plain = kind not in _EXPANSIONS and not node.named_child_count
        return source, plain, _PATTERN.search(source) is not None and kind not in _EXPANSIONS

    def _string(self, node: Node, depth: int) -> tuple[str, bool, bool]:
        plain, pieces, at = True, [], node.start_byte + (2 if node.type == "translated_string" else 1)
        for child in node.named_children:
            if child.type == "string_content":
                continue
            pieces.append(double_quoted(self.text[at : child.start_byte]))
            if child.type == "string":  # The string in $"…".
                return self._string(child, depth + 1)
            pieces.append(self._source(child))
            self._inside(child, depth + 1)
            plain = False
            at = child.end_byte
        end = node.end_byte if node.children[-1].is_missing else node.end_byte - 1
        pieces.append(double_quoted(self.text[at:end]))
        return "".join(pieces), plain, False

    def _inside(self, node: Node, depth: int) -> None:
        """Read the substitutions in an expansion."""
        if depth > DEEPEST:
            self.unreadable.append(self._span(node))
        elif node.type in _SUBSTITUTIONS:
            self._substitution(node, depth)
        else:
            for child in node.named_children:
                self._inside(child, depth + 1)

    def _substitution(self, node: Node, depth: int) -> None:
        if self._expanded:
            return
        for child in node.named_children:
            self._statement(child, depth + 1)

    # ---- places ------------------------------------------------------------------------------------------------------

    def _source(self, node: Node) -> str:
        return self.text[node.start_byte : node.end_byte]

    def _span(self, node: Node) -> Span:
        return self._place(node.start_byte, node.end_byte)

    def _place(self, start: int, end: int) -> Span:
        return self._whole or (self._start + start, self._start + end)

    def _forks(self, function: Node) -> bool:
        """The function pipes itself into itself: a fork bomb."""
        name = function.child_by_field_name("name")
        body = function.child_by_field_name("body")
        if name is None or body is None:
            return False
        own = self._source(name)
        return any(
            sum(self._source(stage) == own for stage in child.named_children) > 1
            for child in body.named_children
            if child.type == "pipeline"
        )


def _piped_scripts(command: SimpleCommand) -> Iterable[Word]:
    """What `echo`, `printf` or `cat <<END` writes into a shell, if it stands there in one word."""
    feeder = command.feeders[-1] if command.feeders else None
    if feeder is not None and feeder.program == "cat":
        return feeder.documents
    if feeder is not None and feeder.program in _ECHOES:
        operands = [word for word in feeder.words[1:] if not re.fullmatch(r"-[neE]+", word.value)]
        return operands if len(operands) == 1 else ()
    return ()


def _first_error(root: Node) -> Span:
    """The place of the first part that the grammar does not know."""
    node = root
    while not node.is_error and not node.is_missing:
        child = next((one for one in node.children if one.has_error or one.is_missing), None)
        if child is None:
            break
        node = child
    return node.start_byte, max(node.end_byte, node.start_byte)
