"""How the bundled pair handles questions that it was not trained on.

    python -m benchmarks.behaviour [--only SET] [--pages both] [--json OUT]
    python -m benchmarks.behaviour --model DIR | --answers FILE

Four sets, in tests/data. The recipe keeps them out of its data.

**literals**: requests that name a file, a host, a number. A right answer has a right program, and each of these names
letter by letter. **off_topic**: remarks that have nothing to do with a shell. A right answer holds no command.
**harmless**: looking, counting, copying, making. A right answer holds no command that does harm which nobody asked for,
by the rules that name it to a person (`app/commands/risks.py`).
**follow_ups**: conversations of which the last question counts, judged by patterns and by the names that its answer
must keep.

Who answers: `benchmarks.answers`. Questions without an answer in the file of `--answers` are not counted.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.commands.requests import unasked
from app.commands.risk import Kind
from app.commands.risks import answer_risks
from app.commands.script import SimpleCommand, Word
from app.commands.syntax import parse
from benchmarks.answers import NoAnswers, add_options, ask_as_told, measured_with, share
from benchmarks.bundled import DATA, write
from benchmarks.everyday import commands_of

SETS = ("literals", "off_topic", "harmless", "follow_ups")
MOST_TOKENS = 160
"""Tokens of an answer."""

_CODE = re.compile(r"```|^\s*\$ \S", re.MULTILINE)
_INLINE = re.compile(r"(\b(?:use|run|type|try|enter|with)\s+)?`([^`\n]+)`", re.IGNORECASE)
_COMMAND = re.compile(r"(?:\w+=\S* )*[\w./~-]*[a-z0-9][\w./+-]*(?:\s+\S.*)?|.*[|;<>&$].*")


@dataclass(frozen=True)
class BehaviourQuestion:
    """One conversation of a set, and the criteria for its last answer."""

    set: str
    id: str
    turns: tuple[str, ...]
    literals: tuple[str, ...]
    """What the command must contain letter by letter."""
    accept: tuple[re.Pattern[str], ...]
    reject: tuple[re.Pattern[str], ...]
    right: str
    """One right answer, in `literals` and `follow_ups`."""

    def problem(self, answer: str) -> str | None:
        """What is wrong with an answer, or None."""
        if not answer.strip():
            return "no answer"
        return _JUDGES[self.set](self, answer)


def _literals(question: BehaviourQuestion, answer: str) -> str | None:
    commands = commands_of(answer)
    return _without(question, commands) or _patterns(question, commands)


def _off_topic(question: BehaviourQuestion, answer: str) -> str | None:
    return "holds a command" if holds_command(answer) else None


def _harmless(question: BehaviourQuestion, answer: str) -> str | None:
    """An unknown program does no harm, nor does text that is not a shell command."""
    found = unasked(question.turns[-1], answer_risks(answer))
    return "; ".join(risk.sentence for risk in found if risk.kind not in (Kind.UNKNOWN, Kind.UNREADABLE)) or None


def _follow_ups(question: BehaviourQuestion, answer: str) -> str | None:
    return _without(question, commands_of(answer)) or _patterns(question, answer)


_JUDGES = {"literals": _literals, "off_topic": _off_topic, "harmless": _harmless, "follow_ups": _follow_ups}


def _without(question: BehaviourQuestion, commands: str) -> str | None:
    missing = [literal for literal in question.literals if not has_literal(commands, literal)]
    return f"without {', '.join(missing)}" if missing else None


def _patterns(question: BehaviourQuestion, text: str) -> str | None:
    for pattern in question.reject:
        if pattern.search(text):
            return f"has what it must not: {pattern.pattern}"
    return None if any(pattern.search(text) for pattern in question.accept) else "not what was asked for"


def has_literal(commands: str, literal: str) -> bool:
    """True if a command contains the literal letter by letter, quoted or not, and not as part of a longer name."""
    words = "\n".join(word.value for command in parse(commands).commands for word in _words(command))
    before = r"(?:(?<![\w.-])|(?<=\s-[A-Za-z])|(?<=\s-))"
    after = r"(?!\d)" if literal.isdigit() else r"(?![\w-]|\.\w)"  # `sed -n 40,55p`
    return bool(re.search(f"{before}{re.escape(literal)}{after}", f" {commands}\n{words}"))


def _words(command: SimpleCommand) -> list[Word]:
    return [*command.words, *(one.target for one in command.redirections if one.target)]


def holds_command(answer: str) -> bool:
    """True if an answer gives a command: a code fence, a line after a prompt, or inline code that can be run.

    A program's name alone is a mention ("ask me about `tar`"), except after "use", "run" and the like.
    """
    if _CODE.search(answer):
        return True
    for told, code in _INLINE.findall(answer):
        if (told or len(code.split()) > 1) and _COMMAND.fullmatch(code.strip()):
            return True
    return False


def read_behaviour(name: str) -> list[BehaviourQuestion]:
    """The questions of one of `SETS`."""
    questions = []
    for line in (DATA / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
        raw = json.loads(line)
        flags = re.MULTILINE | re.IGNORECASE if name == "follow_ups" else re.MULTILINE
        accept, reject = (tuple(re.compile(p, flags) for p in raw.get(key, ())) for key in ("accept", "reject"))
        turns = tuple(raw.get("turns") or [raw["prompt"]])
        literals = tuple(raw.get("literals", ()))
        right = raw.get("right", "")
        questions.append(BehaviourQuestion(name, raw["id"], turns, literals, accept, reject, right))
    return questions


def judged(questions: Sequence[BehaviourQuestion], answers: Mapping[str, str], mode: str) -> list[dict[str, Any]]:
    """One row per question with an answer."""
    return [
        {
            "set": question.set,
            "mode": mode,
            "id": question.id,
            "turns": list(question.turns),
            "answer": answers[question.id],
            "fault": question.problem(answers[question.id]),
        }
        for question in questions
        if question.id in answers
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=SETS)
    add_options(parser)
    parser.add_argument("--json", type=Path, metavar="OUT")
    arguments = parser.parse_args()
    questions = [question for name in SETS if arguments.only in (None, name) for question in read_behaviour(name)]
    prompts = [{"id": question.id, "turns": question.turns} for question in questions]
    try:
        answers = ask_as_told(arguments, prompts, MOST_TOKENS)
    except NoAnswers as error:
        parser.exit(1, f"{error}\n")
    rows = [row for mode, given in answers.items() for row in judged(questions, given, mode)]
    rows.sort(key=lambda row: SETS.index(row["set"]))
    for row in rows:
        if row["fault"]:
            print(f"wrong  {row['mode']}  {row['id']}: {row['fault']}\n       {row['turns'][-1]!r}: {row['answer']!r}")
    for name, way in dict.fromkeys((row["set"], row["mode"]) for row in rows):
        print(f"{name:<12}{way:<20}{share([row for row in rows if row['set'] == name], way)} right")
    write(arguments.json, rows, measured_with(arguments))


if __name__ == "__main__":
    main()
