"""Parses shell text into simple commands, with tree-sitter's grammar of Bash.

The parser is loaded with the first command: that takes some 15 ms. It reads a copy of the text in which placeholders
(`<file>`, `{{path/to/file}}`) and characters beyond ASCII are replaced by letters, so offsets in the tree are offsets
in the text. Commands run by a wrapper such as `sudo` or `sh -c '…'` are parsed too.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from app.commands.inputs import runs_input, texts
from app.commands.script import Redirection, Script, SimpleCommand, Span, Word
from app.commands.variables import Variables
from app.commands.words import DEEPEST, WORDS, Places, WordReader
from app.commands.wrappers import inner_commands

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

LONGEST = 20_000
"""Most characters that are parsed: no command is longer, and a hostile one would cost seconds."""
SCRIPTS_DEEP = 6
"""Most levels of quoted scripts inside quoted scripts."""
WRAPPERS_DEEP = 20
"""Most levels of wrappers that run wrappers."""
MOST_COMMANDS = 500
"""Most commands of one text, including those they run. The rest is reported as unreadable."""

PLACEHOLDER = re.compile(
    r"\{\{[^{}\n]*\}\}"
    r"|(?<![<>&\w)])<[A-Za-z](?:[\w./:|,@-]| (?=[\w./-]))*(?:\.\.\.)?>(?=[\s\"'`;|&)/.:@,=<\]-]|$)",
    re.MULTILINE,
)
"""A placeholder that the person fills in. `<in>out` without a space is two redirections."""
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")
_CONTINUED = re.compile(r"(?<=[\w./-])(?<!\\)\\\n(?=[\w./-])")
_READ_AND_WRITE = re.compile(r"<>")


def parse(text: str) -> Script:
    """Parse the simple commands of a text. Unreadable parts are reported by their place, never guessed."""
    if len(text) > LONGEST:
        return Script((), ((0, len(text)),))
    reader = _Reader(Places(text))
    reader.read()
    return Script(tuple(reader.commands), tuple(reader.unreadable), tuple(reader.forks))


@cache
def _parser() -> Parser:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


def masked(text: str) -> str:
    """The text with a letter for each character of a placeholder and each one beyond ASCII; its length stays the same.

    The grammar knows neither `<>`, which becomes `<`, nor a line continued in the middle of a word.
    """
    text = _CONTINUED.sub(_joined, _READ_AND_WRITE.sub("< ", text))
    return _BEYOND_ASCII.sub("x", PLACEHOLDER.sub(lambda found: "x" * len(found.group()), text))


def _joined(found: re.Match[str]) -> str:
    """A comment does not continue on the next line, so a line with one stays as it is."""
    line = found.string[found.string.rfind("\n", 0, found.start()) + 1 : found.start()]
    return found[0] if "#" in line else "xx"


class _Reader:
    """One pass over a text.

    `nested`: how many scripts enclose it. `expanded`: its substitutions have already been read. `outer`: what runs it,
    whose input is the input of its commands. `taken`: the texts that a shell has read from its input.
    """

    def __init__(
        self,
        places: Places,
        nested: int = 0,
        outer: SimpleCommand | None = None,
        taken: set[Word] | None = None,
        *,
        expanded: bool = False,
    ) -> None:
        self.commands: list[SimpleCommand] = []
        self.unreadable: list[Span] = []
        self.forks: list[Span] = []
        self._places = places
        self._nested = nested
        self._outer = outer
        self._far = outer is not None and outer.far
        self._feeders = outer.feeders if outer is not None else ()
        self._documents = outer.documents if outer is not None else ()
        self._taken = set() if taken is None else taken
        self._expanded = expanded
        self._variables = Variables()
        self._word = WordReader(places, self._substitution, self.unreadable).word

    def read(self, depth: int = 0) -> None:
        """Read the whole text, which is itself nested `depth` brackets deep."""
        root = _parser().parse(masked(self._places.text).encode("ascii")).root_node
        if root.has_error:
            self.unreadable.append(self._places.at(*_first_error(root)))
        self._statement(root, depth, self._feeders)

    # ---- statements --------------------------------------------------------------------------------------------------

    def _statement(self, node: Node, depth: int, feeders: tuple[SimpleCommand, ...] = ()) -> list[SimpleCommand]:
        """Read a statement; returns its commands."""
        if depth > DEEPEST or len(self.commands) > MOST_COMMANDS:
            self.unreadable.append(self._places.span(node))
            return []
        kind = node.type
        if kind in ("command", "declaration_command", "unset_command"):
            return self._command(node, depth, feeders)
        if kind == "redirected_statement":
            return self._redirected(node, depth, feeders)
        if kind == "pipeline":
            return self._pipeline(node, depth, feeders)
        if kind == "variable_assignment":
            assignment = self._word(node, depth)
            self._variables.assign(assignment)
            return list(assignment.substitutions)
        if kind == "ERROR":
            return []
        if kind == "function_definition" and self._forks(node):
            self.forks.append(self._places.span(node))
        found: list[SimpleCommand] = []
        for child in _parts(node):
            found += self._statement(child, depth + 1, feeders)
        return found

    def _substitution(self, node: Node, depth: int) -> list[SimpleCommand]:
        if self._expanded:
            return []
        return [command for child in node.named_children for command in self._statement(child, depth)]

    def _redirected(self, node: Node, depth: int, feeders: tuple[SimpleCommand, ...]) -> list[SimpleCommand]:
        body = node.child_by_field_name("body")
        redirects = tuple(node.children_by_field_name("redirect"))
        if body is not None and body.type in ("command", "declaration_command"):
            return self._command(body, depth + 1, feeders, redirects)
        if body is not None and body.type == "pipeline":
            # The grammar attaches the redirection of `a | b > file` to the pipe; the shell attaches it to `b`.
            return self._pipeline(body, depth + 1, feeders, redirects)
        found = self._statement(body, depth + 1, feeders) if body is not None else []
        alone = self._redirections(redirects, depth)
        if alone:
            writers = (*feeders, *found)
            found.append(self._add(SimpleCommand((), self._places.span(node), tuple(alone[0]), feeders=writers)))
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
                # The grammar puts `c && d` of `a | b | c && d` into one stage; the pipe ends at `c`.
                first, *rest = _parts(stage) if stage.type == "list" else [stage]
                found += self._statement(first, depth + 1, (*feeders, *found))
                for other in rest:
                    found += self._statement(other, depth + 1, feeders)
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
        words = self._variables.resolved(words)
        if node.type == "declaration_command":
            for word in words[1:]:
                self._variables.assign(word)
        places = [self._places.span(node), *(word.span for word in more), *(one.span for one in redirections)]
        span = (min(place[0] for place in places), max(place[1] for place in places))
        command = SimpleCommand(
            tuple(words),
            span,
            tuple(redirections),
            tuple(assignments),
            feeders,
            tuple(documents) or (self._documents if feeders == self._feeders else ()),
            self._outer,
            self._far,
        )
        found = [self._add(command), *self._run_by(command, depth)]
        for reader in readers:  # `cat <<END | sort`: the rest of the pipe comes before the text.
            found += self._statement(reader, depth + 1, (*feeders, found[0]))
        return found

    def _add(self, command: SimpleCommand) -> SimpleCommand:
        if command.outer is None and (self._outer is not None or self._far):
            command = replace(command, outer=self._outer, far=self._far)
        self.commands.append(command)
        return command

    # ---- what a command runs -----------------------------------------------------------------------------------------

    def _run_by(self, command: SimpleCommand, depth: int) -> list[SimpleCommand]:
        """The commands that a wrapper runs, added and returned."""
        found: list[SimpleCommand] = []
        todo = [command]
        while todo and len(self.commands) < MOST_COMMANDS:
            outer = todo.pop()
            inners = tuple(inner_commands(outer.words)) if outer.words else ()
            if not inners and runs_input(outer):
                reader = replace(outer, far=outer.far or outer.program == "ssh", feeders=(), documents=())
                for script in texts(outer):
                    if script not in self._taken:  # The first shell leaves nothing for the next one.
                        self._taken.add(script)
                        found += self._script(script, reader, depth)
            if inners and sum(1 for _ in outer.outers) >= WRAPPERS_DEEP:
                self.unreadable.append(outer.span)
                break
            for inner in inners:
                far = outer.far or inner.far
                if inner.script is not None:
                    found += self._script(inner.script, replace(outer, far=far), depth)
                    continue
                span = (inner.words[0].span[0], inner.words[-1].span[1])
                one = SimpleCommand(
                    inner.words, span, feeders=command.feeders, documents=command.documents, outer=outer, far=far
                )
                found.append(self._add(one))
                todo.append(one)
        return found

    def _script(self, word: Word, outer: SimpleCommand, depth: int) -> list[SimpleCommand]:
        if self._nested >= SCRIPTS_DEEP or len(word.value) > LONGEST:
            self.unreadable.append(word.span)
            return []
        exact = word.verbatim is not None and word.plain
        places = Places(word.value, word.verbatim or 0, None if exact else word.span)
        reader = _Reader(places, self._nested + 1, outer, self._taken, expanded=not word.plain)
        reader.read(depth + 1)
        self.commands += reader.commands
        self.unreadable += reader.unreadable
        self.forks += reader.forks
        return reader.commands

    # ---- words -------------------------------------------------------------------------------------------------------

    def _redirections(
        self, nodes: tuple[Node, ...], depth: int
    ) -> tuple[list[Redirection], list[Word], list[Word], list[Node]]:
        """Redirections; words that the grammar took for a second target; here-texts; commands that read a pipe."""
        found: list[Redirection] = []
        more: list[Word] = []
        documents: list[Word] = []
        readers: list[Node] = []
        for node in nodes:
            if node.type == "heredoc_redirect":
                for child in node.children:
                    if child.type == "heredoc_body":
                        body = self._word(child, depth)
                        documents.append(replace(body, value=self._places.source(child), verbatim=body.span[0]))
                    elif child.type == "file_redirect":
                        inner, extra, *_ = self._redirections((child,), depth)
                        found += inner
                        more += extra
                    elif child.is_named and child.type not in ("heredoc_start", "heredoc_end", "file_descriptor"):
                        # Further stages of a pipe, `&& …`, or one more word.
                        if child.type in WORDS:
                            more.append(self._word(child, depth))
                        else:
                            readers.append(child)
                continue
            if node.type == "herestring_redirect":
                documents += [self._word(child, depth) for child in node.named_children]
                continue
            operator = next((child.type for child in node.children if not child.is_named), "")
            targets = [self._word(child, depth) for child in node.children_by_field_name("destination")]
            found.append(Redirection(operator, targets[0] if targets else None, self._places.span(node)))
            more += targets[1:]
        return found, more, documents, readers

    def _forks(self, function: Node) -> bool:
        """Whether the function pipes itself into itself: a fork bomb."""
        name = function.child_by_field_name("name")
        body = function.child_by_field_name("body")
        if name is None or body is None:
            return False
        own = self._places.source(name)
        return any(
            sum(self._places.source(stage) == own for stage in child.named_children) > 1
            for child in body.named_children
            if child.type == "pipeline"
        )


def _parts(node: Node) -> list[Node]:
    """The statements in a node. `a && b && c` is a tree as deep as it is long; here it becomes a flat list."""
    found: list[Node] = []
    while node.type == "list":
        first, *rest = node.named_children
        found += reversed(rest)
        node = first
    return [node, *reversed(found)] if found else node.named_children


def _first_error(root: Node) -> Span:
    """The place of the first part that does not match the grammar."""
    node = root
    while not node.is_error and not node.is_missing:
        child = next((one for one in node.children if one.has_error or one.is_missing), None)
        if child is None:
            break
        node = child
    return node.start_byte, max(node.end_byte, node.start_byte)
