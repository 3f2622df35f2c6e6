"""Explanations of a command: where they come from, and how they look in a terminal.

A source is anything with `explain`. The manual of this device is one, and a model of the person is another
(`app/shell/answers.py`).
"""

from __future__ import annotations

import asyncio
import re
import shutil
import textwrap
from collections.abc import Sequence
from typing import Protocol

from app.sanitise import sanitise
from app.shell.words import programs

MANUAL = "The manual"
MANUAL_SECONDS = 3.0
MOST_COLUMNS = 100
ENTRY = re.compile(r"^(\S.*?) \((\w+)\)\s+- (.*)$")
"""A line of `whatis`: names, section, what it is."""
SECTIONS = ("1", "8", "6", "n")
"""Sections of the manual that hold programs."""

Part = tuple[str, str]
"""Who says it, and what."""


class Explainer(Protocol):
    """A source of explanations."""

    async def explain(self, command: str, path: str) -> Sequence[Part]:
        """What it knows of a command; empty: nothing. `path`: the folders that the shell looks for programs in."""


class ManualPages:
    """Says in one line what each program of a command is: the summary of its manual page on this device."""

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
        for line in sanitise(text).strip().splitlines():
            width = max(20, min(columns, MOST_COLUMNS) - 2)
            lines += textwrap.wrap(line, width, initial_indent="  ", subsequent_indent="  ") or [""]
    return "\n".join(lines)
