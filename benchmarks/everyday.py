"""How many everyday questions get a right command.

    python -m benchmarks.everyday [--questions FILE] [--pages both] [--model DIR] [--json OUT]

Questions, and patterns of right commands, are in tests/data/everyday.jsonl. The recipe keeps them out of its data. In
tests/data/everyday_rephrased.jsonl, every second question is rephrased in words that were written after the model was
trained and before it was tested. Who answers: `benchmarks.answers`.
"""

from __future__ import annotations

import argparse
import json
import re
from dataclasses import dataclass
from pathlib import Path

from benchmarks.answers import FENCE, INLINE, NoAnswers, add_options, ask_as_told, measured_with, share
from benchmarks.bundled import DATA, write

QUESTIONS = DATA / "everyday.jsonl"
MOST_TOKENS = 120
"""Tokens of an answer."""


@dataclass(frozen=True)
class EverydayQuestion:
    id: str
    prompt: str
    accept: tuple[re.Pattern[str], ...]
    reject: tuple[re.Pattern[str], ...]

    def right(self, answer: str) -> bool:
        """True if a command of the answer is accepted and none is rejected."""
        return self.fault(answer) is None

    def fault(self, answer: str) -> str | None:
        """What is wrong with an answer, or None."""
        commands = commands_of(answer)
        if any(pattern.search(commands) for pattern in self.reject):
            return "a wrong command"
        return None if any(pattern.search(commands) for pattern in self.accept) else "no right command"


def commands_of(answer: str) -> str:
    """The text of code fences; without any, that of inline code; without any, all of it."""
    return "\n".join(FENCE.findall(answer)) or "\n".join(INLINE.findall(answer)) or answer


def read_questions(path: Path = QUESTIONS) -> list[EverydayQuestion]:
    questions = []
    for line in path.read_text(encoding="utf-8").splitlines():
        raw = json.loads(line)
        patterns = [tuple(re.compile(p, re.MULTILINE) for p in raw.get(key, ())) for key in ("accept", "reject")]
        questions.append(EverydayQuestion(raw["id"], raw["prompt"], *patterns))
    return questions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=Path, default=QUESTIONS, metavar="FILE")
    add_options(parser)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    questions = read_questions(arguments.questions)
    try:
        ways = ask_as_told(arguments, [{"id": one.id, "prompt": one.prompt} for one in questions], MOST_TOKENS)
    except NoAnswers as error:
        parser.exit(1, f"{error}\n")
    rows = []
    for way, answers in ways.items():
        judged = [
            {"id": one.id, "mode": way, "prompt": one.prompt, "answer": answer, "fault": one.fault(answer)}
            for one in questions
            if (answer := answers.get(one.id)) is not None
        ]
        for row in judged:
            if row["fault"]:
                print(f"wrong  {way}  {row['prompt']!r}: {row['fault']}: {commands_of(row['answer'])!r}")
        print(f"{way}: {share(judged, way)} right")
        rows += judged
    write(arguments.json, rows, measured_with(arguments))


if __name__ == "__main__":
    main()
