"""How often the pages that Shell Guide finds contain the program that a question is about: the search alone, no model.

    python -m benchmarks.retrieval [--pages FILE] [--platform linux] [--json OUT] [--misses SET]

A hit is right if its command runs a right program. In tests/data/literals.jsonl, literals_fresh.jsonl and
execution.jsonl that is the program of the one right command given there; in tests/data/everyday.jsonl and
tests/data/everyday_rephrased.jsonl, any program of which the pages have an accepted command; in
tests/data/retrieval.jsonl, those that are named. That last file has questions written for this benchmark, and
literals_fresh.jsonl has questions by somebody who had seen nothing of this project. One half of each is open: the
search was tuned on these and on everyday.jsonl. No failures of the other halves and files were ever examined, except
those of literals.jsonl, which were read once when examples were first filled. `command`: an accepted command with all
required names is one of the filled examples that the target reads; `first`: it is the first of them. So `first` is what
a person would get by copying the first line without a model. Milliseconds are CPU time of one search.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from app.cli.machine import machine
from app.commands.syntax import parse
from benchmarks.bundled import DATA, DRAFTER, write
from benchmarks.everyday import read_questions
from models.guide.outline import unfilled
from models.guide.pages import FILE, Pages
from models.guide.prompt import find
from models.guide.search import Hit, platforms_of, search

OPEN = ("everyday", "retrieval-open", "literals_fresh-open")
"""Sets whose failures may be examined."""
SETS = (*OPEN, "retrieval-sealed", "literals_fresh-sealed", "everyday_rephrased", "literals", "execution")
PLACES = (1, 3, 5)
_BEFORE = ("sudo", "cd", "echo", "printf", "cat", "[", "test", "true", "for", "while", "do", "if", "then")
"""Programs that are not what a command is about if another one follows."""


@dataclass(frozen=True)
class Question:
    """A question and what is right for it."""

    prompt: str
    programs: frozenset[str]
    accept: tuple[re.Pattern[str], ...] = ()
    reject: tuple[re.Pattern[str], ...] = ()
    literals: tuple[str, ...] = ()
    """What the command must contain, letter by letter."""

    def accepts(self, command: str) -> bool:
        """Whether a command is a right answer, as it is."""
        held = all(one in command for one in self.literals) and not any(one.search(command) for one in self.reject)
        return held and any(one.search(command) for one in self.accept)


def programs(command: str) -> list[str]:
    """The programs that a command line runs, in order, without `sudo` and the programs that these run."""
    return [
        one.words[0].value
        for one in parse(command).commands
        if one.words and one.program != "sudo" and all(outer.program == "sudo" for outer in one.outers)
    ]


def main_program(command: str) -> str:
    """The program that a command line is about: the first that does more than change the folder or print something."""
    found = programs(command)
    return next((one for one in found if one not in _BEFORE), found[0] if found else "")


def read_set(name: str, pages: Pages) -> list[Question]:
    """The questions of one of `SETS`."""
    if name.startswith("everyday"):
        return [
            Question(
                one.prompt,
                _accepted(pages, tuple(one.accept), tuple(one.reject)) or frozenset(_spelt(one.accept, pages)),
                tuple(one.accept),
                tuple(one.reject),
            )
            for one in read_questions(DATA / f"{name}.jsonl")
        ]
    file, _, half = name.partition("-")
    rows = [json.loads(line) for line in (DATA / f"{file}.jsonl").read_text(encoding="utf-8").splitlines()]
    if half:
        rows = [row for row in rows if row["half"] == half]
    if file == "retrieval":
        return [Question(row["prompt"], frozenset(row["programs"])) for row in rows]
    key = "right" if file.startswith("literals") else "gold"
    return [
        Question(
            row["prompt"],
            frozenset([main_program(row[key])]),
            tuple(map(re.compile, row.get("accept", ()))),
            literals=tuple(row.get("literals", ())),
        )
        for row in rows
    ]


@cache
def _commands(pages: Pages) -> list[str]:
    return sorted({unfilled(command) for (command,) in pages.rows("SELECT command FROM examples")})


@cache  # Both everyday sets want the same.
def _accepted(pages: Pages, accept: tuple[re.Pattern[str], ...], reject: tuple[re.Pattern[str], ...]) -> frozenset[str]:
    """The programs of those commands of the pages that are right."""
    right = (command for command in _commands(pages) if any(pattern.search(command) for pattern in accept))
    return frozenset(
        main_program(command) for command in right if not any(pattern.search(command) for pattern in reject)
    )


def _spelt(patterns: Sequence[re.Pattern[str]], pages: Pages) -> list[str]:
    """Programs named in patterns of right commands.

    Commands of the pages lack the names that these patterns require.
    """
    words = {word for pattern in patterns for word in re.findall(r"(?<![\\\w-])[a-z][a-z0-9]+", pattern.pattern)}
    return [word for word in words if pages.knows(word)]


def place(question: Question, hits: Sequence[Hit]) -> int | None:
    """The rank of the first right hit, from 1, or None if none is right."""
    for at, hit in enumerate(hits, 1):
        if question.programs & {*programs(hit.example.command)}:
            return at
    return None


def measure(pages: Pages, name: str, platforms: Sequence[str], *, misses: bool = False) -> dict[str, Any]:
    """The row of one set."""
    questions = read_set(name, pages)
    places, seconds, commands, first = [], [], 0, 0
    for question in questions:
        begun = time.process_time()
        hits = search(pages, question.prompt, platforms, max(PLACES))
        seconds.append(time.process_time() - begun)
        places.append(place(question, hits))
        right = [question.accepts(hit.shown.command) for hit in find(pages, [question.prompt], platforms)]
        commands += any(right)
        first += right[:1] == [True]
        if misses and (places[-1] or 9) > 3:
            print(f"{question.prompt!r}, not {sorted(question.programs)[:6]}")
            for hit in hits[:4]:
                print(f"    {hit.score:.2f} {hit.page.name}: {hit.example.task} => {hit.example.command}")
    seconds.sort()
    row: dict[str, Any] = {"set": name, "questions": len(questions)}
    row |= {f"top{most}": sum(1 for at in places if at is not None and at <= most) for most in PLACES}
    if any(question.accept for question in questions):
        row |= {"command": commands, "first": first}
    return row | {
        "cpu_ms_p50": round(1000 * seconds[len(seconds) // 2], 2),
        "cpu_ms_p95": round(1000 * seconds[int(0.95 * len(seconds))], 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=Path, default=DRAFTER / FILE, metavar="FILE")
    parser.add_argument("--platform", default="linux")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--misses", choices=OPEN, action="append", default=[], help="print what was not found")
    arguments = parser.parse_args()
    pages = Pages.open(arguments.pages)
    search(pages, "list files", platforms_of(arguments.platform))
    rows = []
    for name in SETS:
        rows.append(measure(pages, name, platforms_of(arguments.platform), misses=name in arguments.misses))
        shares = ", ".join(f"top {most}: {rows[-1][f'top{most}'] / rows[-1]['questions']:.1%}" for most in PLACES)
        print(f"{name} ({rows[-1]['questions']}): {shares}; {rows[-1]}")
    write(arguments.json, rows, machine())


if __name__ == "__main__":
    main()
