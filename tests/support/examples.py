"""The example questions of the documents and the welcome screen. The bundled pair must answer each one correctly."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

EXAMPLES = Path(__file__).parents[1] / "data" / "examples.jsonl"
_FENCE = re.compile(r"```[^\n]*\n(.*?)```", re.DOTALL)


@dataclass(frozen=True)
class Example:
    """A question, or a conversation whose last question counts."""

    id: str
    turns: tuple[str, ...]
    commands: int
    """Number of commands in the last answer."""
    accept: tuple[re.Pattern[str], ...]
    """Patterns of commands that a person would accept."""

    @property
    def question(self) -> str:
        return self.turns[-1]

    def problem(self, answer: str) -> str | None:
        """What is wrong with an answer; None: nothing. Each of its commands must be correct."""
        commands = [block.strip() for block in _FENCE.findall(answer)]
        if len(commands) != self.commands:
            return f"{len(commands)} commands, not {self.commands}: {answer!r}"
        wrong = [command for command in commands if not any(one.search(command) for one in self.accept)]
        return f"wrong: {wrong}" if wrong else None


def read_examples() -> list[Example]:
    found = []
    for row in map(json.loads, EXAMPLES.read_text(encoding="utf-8").splitlines()):
        turns, accept = tuple(row.get("turns") or [row["prompt"]]), tuple(map(re.compile, row["accept"]))
        found.append(Example(row["id"], turns, row.get("commands", 1), accept))
    return found
