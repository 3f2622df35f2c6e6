"""Explanations of a command: where they come from, and how they look in a terminal.

The sources are the bundled pages, the manual pages of this device, and the risks of the command. The person's own model
is asked as well (`app/shell/answers.py`).
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence

from app.commands.known import bundled_pages
from app.commands.risks import risks
from app.sanitise import sanitise
from app.shell.words import calls, programs
from models.guide.flags import flags_of
from models.guide.pages import Example
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


def known_parts(command: str, path: str) -> list[Part]:
    """All that is known of a command without a model. `path`: the shell's search path for programs.

    Raises `DrafterMissing` or `DrafterCorrupt` if the index of pages cannot be read.
    """
    return [*tldr_pages(command), *flag_meanings(command), *manual_pages(command, path), *risk_sentences(command, path)]


def tldr_pages(command: str) -> list[Part]:
    """Each program's bundled page, with the examples that are most like the command."""
    parts: list[Part] = []
    for name, rest in calls(command):
        given = [word.value for word in (name, *rest)]
        for called in (" ".join(given[:2]), name.value):  # `git commit` before `git`.
            page = bundled_pages().find(called, platforms_of(sys.platform))
            if page is not None:
                parts.append((TLDR, f"{called}: {page.description}".removesuffix(": ")))
                parts += [(TLDR, f"  {one.task}: {one.command}") for one in nearest_examples(page.examples, given)]
                break
    return list(dict.fromkeys(parts))


def flag_meanings(command: str) -> list[Part]:
    """What each flag of a command means: `-xzvf` is four flags. Only of commonly used programs."""
    parts: list[Part] = []
    for name, rest in calls(command):
        own = shlex.join(word.value for word in (name, *rest))
        parts += [(FLAGS, f"{one.program} {one.flag}: {one.meaning}") for one in flags_of(own)]
    return list(dict.fromkeys(parts))


def risk_sentences(command: str, path: str) -> list[Part]:
    """What the command deletes, overwrites or stops (`app/commands/`)."""
    return [(CARE, f"it {risk.sentence}") for risk in risks(command, path)]


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


def manual_pages(command: str, path: str) -> list[Part]:
    """Each program of a command in one line: the summary of its manual page on this device."""
    names = [name for name in dict.fromkeys(programs(command)) if re.fullmatch(r"[\w.+][\w.+-]*", name)]
    whatis = shutil.which("whatis", path=path or None)
    if not names or whatis is None:
        return []
    null = subprocess.DEVNULL
    try:
        ran = subprocess.run(
            [whatis, "--", *names], stdin=null, stdout=subprocess.PIPE, stderr=null, timeout=MANUAL_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    said: dict[str, str] = {}
    for line in ran.stdout.decode("utf-8", "replace").splitlines():
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
