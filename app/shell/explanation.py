"""Explanations of a command: where they come from, and how they look in a terminal.

A source is anything with `explain`: the bundled pages, the manual pages of this device, the risks of the command. The
person's own model is asked as well (`app/shell/answers.py`).
"""

from __future__ import annotations

import asyncio
import re
import shlex
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from app.commands.risks import risks
from app.sanitise import sanitise
from app.shell.words import commands, program, programs
from models.guide.flags import flags_of
from models.guide.pages import Example, Pages
from models.guide.search import platforms_of

FLAGS = "Flags"
MANUAL = "The manual"
TLDR = "tldr pages (CC-BY 4.0)"
CARE = "Care"
MOST_EXAMPLES = 3
LEAST_LIKENESS = 0.3
"""Share of options that a command and an example must have in common."""
FIRST_SHARE = 0.5
"""Weight of an equal first option: it often selects the operation, such as `c` or `x` for `tar`."""
BARE = {"ar", "ps", "tar"}
"""Programs whose options may be written without a dash."""
MANUAL_SECONDS = 3.0
MOST_COLUMNS = 100
ENTRY = re.compile(r"^(\S.*?) \((\w+)\)\s+- (.*)$")
"""A line of `whatis`: names, section, summary."""
SECTIONS = ("1", "8", "6", "n")
"""Sections of the manual that hold programs."""

Part = tuple[str, str]
"""(source, explanation)."""


class Explainer(Protocol):
    """A source of explanations."""

    async def explain(self, command: str, path: str) -> Sequence[Part]:
        """What it knows of a command; may be empty. `path`: the shell's search path for programs."""


class TldrPages:
    """Explains by each program's bundled page, with the examples that are most like the command.

    `file`: the index, opened when first needed.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._pages: Pages | None = None

    async def explain(self, command: str, path: str) -> Sequence[Part]:
        """Raises `DrafterMissing` or `DrafterCorrupt` if the index cannot be read."""
        return await asyncio.to_thread(self._explain, command)

    def _explain(self, command: str) -> list[Part]:
        if self._pages is None:
            self._pages = Pages.open(self._file)
        parts: list[Part] = []
        for words in commands(command):
            name = program(words)
            if name is None:
                continue
            given = [word.value for word in words[words.index(name) :]]
            for called in (" ".join(given[:2]), name.value):  # `git commit` before `git`.
                page = self._pages.find(called, platforms_of(sys.platform))
                if page is not None:
                    parts.append((TLDR, f"{called}: {page.description}".removesuffix(": ")))
                    parts += [(TLDR, f"  {one.task}: {one.command}") for one in nearest_examples(page.examples, given)]
                    break
        return list(dict.fromkeys(parts))


class FlagMeanings:
    """Says what each flag of a command means: `-xzvf` is four flags. Knows commonly used programs."""

    async def explain(self, command: str, path: str) -> Sequence[Part]:
        parts: list[Part] = []
        for words in commands(command):
            if (name := program(words)) is not None:
                own = shlex.join(word.value for word in words[words.index(name) :])
                parts += [(FLAGS, f"{one.program} {one.flag}: {one.meaning}") for one in flags_of(own)]
        return list(dict.fromkeys(parts))


class RiskSentences:
    """Says what the command deletes, overwrites or stops (`app/commands/`)."""

    async def explain(self, command: str, path: str) -> Sequence[Part]:
        found = await asyncio.to_thread(risks, command, path)
        return [(CARE, f"it {risk.sentence}") for risk in found]


def nearest_examples(examples: Sequence[Example], command: Sequence[str]) -> list[Example]:
    """The examples whose options are most like those of a command, best first, without dissimilar ones.

    `command`: the words from the program's name on.
    """
    given = list(_options(command))
    likeness = []
    for place, example in enumerate(examples):
        its = list(_options(example.command.split()))
        if shared := {*given} & {*its}:
            first = FIRST_SHARE if given[0] == its[0] else 0.0
            likeness.append((len(shared) / len({*given, *its}) + first, -place, example))
    likeness.sort(key=lambda one: one[:2], reverse=True)
    return [example for share, _, example in likeness[:MOST_EXAMPLES] if share >= LEAST_LIKENESS]


def _options(words: Sequence[str]) -> Iterator[str]:
    """Long options as they are, and short ones letter by letter: `-la` as `l` and `a`, for `tar` also `xzf`."""
    for place, word in enumerate(words):
        if word.startswith("--"):
            yield word.partition("=")[0]
        elif word.startswith("-") and len(word) < 6:
            yield from word[1:]
        elif place == 1 and words[0] in BARE and word.isalpha():
            yield from word


class ManualPages:
    """Explains each program of a command in one line: the summary of its manual page on this device."""

    async def explain(self, command: str, path: str) -> Sequence[Part]:
        names = [name for name in dict.fromkeys(programs(command)) if re.fullmatch(r"[\w.+][\w.+-]*", name)]
        whatis = shutil.which("whatis", path=path or None)
        if not names or whatis is None:
            return []
        pipe, null = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        ran = await asyncio.create_subprocess_exec(whatis, "--", *names, stdin=null, stdout=pipe, stderr=null)
        try:
            out, _ = await asyncio.wait_for(ran.communicate(), MANUAL_SECONDS)
        except TimeoutError:
            ran.kill()
            await ran.wait()
            return []
        said: dict[str, str] = {}
        for line in out.decode("utf-8", "replace").splitlines():
            found = ENTRY.match(line)
            if found and found[2][:1] in SECTIONS:
                said.setdefault(found[1].split(",")[0], found[3])
        return [(MANUAL, f"{name}: {said[name]}") for name in names if name in said]


def explanation(parts: Sequence[Part], columns: int) -> str:
    """The parts as lines for a terminal, each source named once, without anything that a terminal obeys."""
    lines: list[str] = []
    source = ""
    for who, text in parts:
        if who != source:
            lines.append(f"{who}:")
            source = who
        for line in sanitise(text).strip("\n").splitlines():
            width = max(20, min(columns, MOST_COLUMNS) - 2)
            inset = "  " + " " * (len(line) - len(line.lstrip()))
            lines += textwrap.wrap(line.lstrip(), width, initial_indent=inset, subsequent_indent=inset) or [""]
    return "\n".join(lines)
