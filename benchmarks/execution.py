"""How many requests about files get a command that does what was asked, when it runs.

    python -m benchmarks.execution [--pages both] [--remote URL] [--json OUT]
    python -m benchmarks.execution --model DIR | --answers FILE | --gold

Requests are in tests/data/execution.jsonl, and the trees of files that they are about in
tests/data/execution_trees.json. A test keeps the requests out of the recipe's questions. Each tree is made anew, the
command in the answer's first code fence runs on it in a sandbox (`benchmarks.execution_sandbox`, which needs
bubblewrap), and its output and the files after it are judged (`benchmarks.execution_judge`).

Who answers: `benchmarks.answers`.
`--gold` judges the commands that came with the requests, all of which must be right; otherwise the exit status is 1.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.answers import FENCE, INLINE, NoAnswers, add_options, ask_as_told, measured_with, share
from benchmarks.bundled import DATA, write
from benchmarks.execution_judge import fault
from benchmarks.execution_sandbox import Folder, NoSandbox, check, run
from benchmarks.execution_tree import make, read

REQUESTS = DATA / "execution.jsonl"
TREES = DATA / "execution_trees.json"
MOST_TOKENS = 160
"""Tokens of an answer. The longest gold command has fewer than half as many."""

_PROMPT_SIGN = re.compile(r"^\$ ", re.MULTILINE)


@dataclass(frozen=True)
class Request:
    """One request, the files that it is about, and the check whether a command fulfilled it."""

    id: str
    topic: str
    prompt: str
    setup: Mapping[str, Any]
    """`tree`, the name of a shared tree, or `files` as in `benchmarks.execution_tree`, or both."""
    gold: str
    judge: Mapping[str, Any]

    def fault(self, answer: str) -> str | None:
        """What is wrong with the command of an answer, in a few words, or None if it is right."""
        command = command_of(answer)
        return self.command_fault(command) if command else "there is no command"

    def command_fault(self, command: str) -> str | None:
        """Run a command on fresh files. Returns what is wrong with it, in a few words, or None if it is right."""
        with Folder() as folder:
            make(folder, {**shared_trees().get(self.setup.get("tree", ""), {}), **self.setup.get("files", {})})
            before = read(folder)
            ran = run(folder, command)
            return fault(self.judge, ran, before, read(folder))


def command_of(answer: str) -> str:
    """The text of the first code fence, or else of the first inline code; may be empty."""
    found = FENCE.search(answer) or INLINE.search(answer)
    return _PROMPT_SIGN.sub("", found[1]).strip() if found else ""


@cache
def shared_trees() -> dict[str, dict[str, Any]]:
    trees: dict[str, dict[str, Any]] = json.loads(TREES.read_text(encoding="utf-8"))
    return trees


def read_requests(path: Path = REQUESTS) -> list[Request]:
    return [Request(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def judged(requests: Sequence[Request], answers: Mapping[str, str], way: str) -> list[dict[str, Any]]:
    """One row per request: its command, and what is wrong with it. `answers`: by the request's id."""
    rows = []
    for request in requests:
        text = answers.get(request.id, "")
        command, why = command_of(text), request.fault(text)
        rows.append({"id": request.id, "mode": way, "topic": request.topic, "command": command, "fault": why})
        if why is not None:
            print(f"wrong  {way}  {request.prompt!r}: {command!r}: {why}")
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--gold", action="store_true", help="judge the commands that came with the requests")
    parser.add_argument("--json", type=Path, metavar="OUT")
    arguments = parser.parse_args()
    requests = read_requests()
    prompts = [{"id": request.id, "prompt": request.prompt} for request in requests]
    ways: dict[str, dict[str, str]] = {}
    try:
        check()
        if arguments.gold:
            ways["gold"] = {request.id: f"```sh\n{request.gold}\n```" for request in requests}
        else:
            ways = ask_as_told(arguments, prompts, MOST_TOKENS)
        rows = [row for way, answers in ways.items() for row in judged(requests, answers, way)]
    except (NoSandbox, NoAnswers) as error:
        parser.exit(1, f"{error}\n")
    for way in ways:
        print(f"{way}: {share(rows, way)} right")
    write(arguments.json, rows, measured_with(arguments))
    return int(arguments.gold and any(row["fault"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
