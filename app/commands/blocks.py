"""Finds the shell code in an answer: its fenced blocks, without prompts before commands."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from app.commands.script import Span

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

LANGUAGES = frozenset(
    {"", "sh", "bash", "zsh", "fish", "ksh", "dash", "shell", "console", "terminal", "shell-session", "shellsession"}
    | {"sh-session", "bash-session", "session", "posix", "ash", "command", "cmdline"}
)
"""Languages of fences that hold shell commands; the empty one means a fence without a language."""
SESSIONS = frozenset({"console", "terminal", "shell-session", "shellsession", "sh-session", "bash-session", "session"})
"""Languages for commands mixed with their output, in which commands have a prompt."""
LONGEST = 200_000
"""Most characters of an answer that is searched; no model writes a longer one."""
PROMPT = re.compile(
    r"(?:\([\w.-]+\) )?"  # A virtual environment.
    r"(?:\[[\w.-]+@[\w.-]+[: ][^\]\n]*\][$#%]"  # [me@host ~]$
    r"|[\w.-]+@[\w.-]+(?:[: ][^$#%>\n]*)?[$#%]|[\w.-]+@[\w.-]+ [~/][^$#%>\n]*>"  # me@host:~$, and fish.
    r"|[\w.-]+:[^\s$#%>:]+ [A-Za-z_][\w.-]*[$#]"  # host:~ me$
    r"|➜(?:  +\S+| ~\S*)(?: git:\([^)\n]*\))?(?: ✗)?"  # ➜  ~ git:(main) ✗
    r"|└─+[$#]|(?:ba|z|k)?sh-[\d.]+[a-z]?[$#]|~[\w./-]* [$#]|/[\w./-]* \$|/ #"
    r"|[$%❯➜]|>>?\$) +(?=\S)"
)
"""What shells print before a command, by default and as other programs set it."""
_ROOT_PROMPT = re.compile(r"# +(?=\S)")
_CONTINUED = re.compile(
    r"(?:(?:for|while|until|select|if|then|elif|else|do|case|function|cursh|subsh|pipe|cmdand|cmdor|[db]?quote|heredoc)"
    r" ?)*> ?"  # zsh names what is open.
)
_OPENS = re.compile(r"(?:^|[;&|({]|\b(?:do|then|else)\b)\s*(?:for|while|until|select|if|case)\b|[{(]\s*$")
_CLOSES = re.compile(r"(?:^|[;&|])\s*(?:done|fi|esac)\b|^\s*[})]")
_HERE = re.compile(r"(?<!<)<<-?\s*(['\"]?)(\w+)\1")
_GOES_ON = re.compile(r"(?<!\\)(?:\\\\)*\\$|(?:\||&&)\s*$")
_LINE = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True, slots=True)
class ShellBlock:
    """The commands of one fence. `command` is the input for the shell: lines without prompts, and without output."""

    language: str
    command: str
    span: Span
    """The span of the fence's content in the answer."""
    lines: tuple[tuple[int, int], ...]
    """The offsets of each line of `command`: in `command`, and in the answer."""

    def span_in_answer(self, span: Span) -> Span:
        """A span of `command` as a span of the answer."""
        return self._position(span[0]), max(self._position(span[0]), self._position(span[1]))

    def _position(self, offset: int) -> int:
        line = max(bisect_right(self.lines, offset, key=lambda one: one[0]) - 1, 0)
        inside, outside = self.lines[line]
        return outside + offset - inside


def shell_blocks(answer: str) -> tuple[ShellBlock, ...]:
    """The fences of a Markdown text whose language is a shell or missing."""
    if len(answer) > LONGEST or ("```" not in answer and "~~~" not in answer):
        return ()
    return tuple(_blocks(answer))


@cache
def _markdown() -> MarkdownIt:
    """A parser of blocks only: parsing inline markup costs time and is not needed."""
    from app.complete_markdown import complete_markdown

    return complete_markdown("zero").enable(["fence", "list", "blockquote", "code"])


def _blocks(answer: str) -> Iterator[ShellBlock]:
    starts = [0, *(found.end() for found in _LINE.finditer(answer))]
    source = _LINE.split(answer)
    for token in _markdown().parse(answer):
        language = (token.info.split() or [""])[0].strip("{}.").lower()
        if token.type != "fence" or language not in LANGUAGES or token.map is None:
            continue
        content = token.content.split("\n")[:-1] if token.content.endswith("\n") else token.content.split("\n")
        lines = [
            (_start(source[number], text, starts[number]), text)
            for number, text in enumerate(content, start=token.map[0] + 1)
            if number < len(source)
        ]
        if not any(text.strip() for _, text in lines):
            continue
        kept = tuple(_commands(lines, session=language in SESSIONS))
        if kept:
            yield _block(language, lines, kept)


def _start(line: str, text: str, start: int) -> int:
    """The offset in the answer where a fence's line begins, after the marks of lists and quotes."""
    if line.endswith(text):
        return start + len(line) - len(text)
    return start + len(line) - len(line.lstrip())  # A tab counts as several spaces.


def _block(language: str, lines: list[tuple[int, str]], kept: tuple[tuple[int, str], ...]) -> ShellBlock:
    places, at = [], 0
    for start, text in kept:
        places.append((at, start))
        at += len(text) + 1
    span = (lines[0][0], lines[-1][0] + len(lines[-1][1]))
    return ShellBlock(language, "\n".join(text for _, text in kept), span, tuple(places))


def _commands(lines: list[tuple[int, str]], *, session: bool) -> Iterator[tuple[int, str]]:
    """The lines that are commands, without their prompts.

    If any line has a prompt, those without one are output, unless they continue a command.
    """
    prompt = PROMPT
    prompted = any(prompt.match(text) for _, text in lines)
    if session and not prompted and any(_ROOT_PROMPT.match(text) for _, text in lines):
        prompt, prompted = _ROOT_PROMPT, True
    if not prompted:
        yield from lines
        return
    command = _Unfinished()
    for start, text in lines:
        if (found := prompt.match(text)) is not None:
            command = _Unfinished()
        elif not command.goes_on and not (command.quoted and _CONTINUED.match(text)):
            continue
        else:
            found = _CONTINUED.match(text)
        length = found.end() if found is not None else 0
        yield start + length, text[length:]
        command.read(text[length:])


class _Unfinished:
    """What is open at the end of a command's lines so far, as far as can be told without parsing."""

    def __init__(self) -> None:
        self.quoted = False
        self._joined = False
        self._depth = 0
        self._end = ""
        """The line that ends a here-document."""

    @property
    def goes_on(self) -> bool:
        return self._joined or self._depth > 0 or bool(self._end)

    def read(self, line: str) -> None:
        if self._end:
            self._end = "" if line.strip() == self._end else self._end
            return
        here = _HERE.search(line)
        self._end = here[2] if here is not None else ""
        self._joined = _GOES_ON.search(line) is not None
        self._depth += len(_OPENS.findall(line)) - len(_CLOSES.findall(line))
        self.quoted ^= (line.count("'") + line.count('"')) % 2 == 1
