"""Reads hand-written everyday questions and fills their slots.

Each line of `everyday/*.jsonl` is one need: `intent`, `command`, `questions`, `page`, and sometimes `followups`.
`{file}`, `{host}` ... are slots. A question that names the thing gets a concrete value in both question and command. A
question that does not gets the placeholder. Doubled braces are literal ones.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from recipes.shell_guide.slots import PLACEHOLDERS, SLOT, draw_value


@dataclass(frozen=True)
class Need:
    """One need, its command, and the ways in which people ask for it."""

    name: str
    """Name of the command, as shown in "Use `name` to ..."."""
    intent: str
    command: str
    questions: tuple[str, ...]
    followups: tuple[Need, ...] = ()


def program(command: str) -> str:
    """The program that a command line runs.

    >>> [program(line) for line in ("sudo apt install x", "A=1 git log | head", "(crontab -l; echo x)", "sudo -l")]
    ['apt', 'git', 'crontab', 'sudo']
    """
    for word in command.split():
        if word not in ("sudo", "time", "nohup") and not re.fullmatch(r"\w+=\S*", word):
            itself = command.startswith("sudo ") and word.startswith(("-", "{"))
            return "sudo" if itself else word.lstrip("(")
    return command


def display_name(page: str, command: str) -> str:
    """The page's name if the command runs it, or else the program that it does run."""
    return page if command.replace("sudo ", "").startswith(page) else program(command)


def normalise(question: str) -> str:
    """Normalise a question. Two questions with the same result count as the same."""
    return re.sub(r"[^a-z0-9]+", " ", question.lower()).strip()


def read_everyday(folder: Path, exclude: set[str]) -> list[Need]:
    """All needs of `folder/*.jsonl`, without questions whose normalised form is in `exclude`."""
    needs = []
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            raw = json.loads(line)
            followups = tuple(_need(raw["page"], part, (), exclude) for part in raw.get("followups", []))
            need = _need(raw["page"], raw, followups, exclude)
            if need.questions:
                needs.append(need)
    return needs


def _need(page: str, part: dict[str, Any], followups: tuple[Need, ...], exclude: set[str]) -> Need:
    command = part["command"]
    questions = tuple(question for question in part["questions"] if normalise(question) not in exclude)
    return Need(display_name(page, command), part["intent"].rstrip("."), command, questions, followups)


def fill(question: str, command: str, rng: np.random.Generator, values: dict[str, str]) -> tuple[str, str]:
    """Fill the slots of a question and its command.

    A slot that the question names, or that is already in `values` (an earlier turn named it), gets a value that both
    share. The others get placeholders. `values` is updated in place.
    """
    for slot in SLOT.findall(question):
        if slot not in values:
            values[slot] = draw_value(slot, rng)
    asked = SLOT.sub(lambda m: values[m.group(1)], question)
    answer = SLOT.sub(lambda m: values.get(m.group(1)) or PLACEHOLDERS.get(m.group(1), m.group(1)), command)
    return asked.replace("{{", "{").replace("}}", "}"), answer.replace("{{", "{").replace("}}", "}")
