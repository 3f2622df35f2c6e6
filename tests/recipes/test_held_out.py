"""Questions of the measures are in none of the recipe's files, however a slot is filled."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from recipes.shell_guide.conversations import EVALUATION, EVERYDAY
from recipes.shell_guide.slots import SLOT

pytestmark = pytest.mark.training

NEVER = [path for path in EVALUATION if not path.stem.startswith(("everyday", "retrieval"))]
"""Files of which no question may stand in the recipe. Some of the everyday ones and of the search's do: they are left
out when it draws, and of the index."""


def last_questions(path) -> dict[str, str]:
    """Id -> the question that counts."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {row["id"]: row["turns"][-1] if "turns" in row else row["prompt"] for row in rows}


def words(text: str) -> str:
    """The words of a question in any script, in small letters."""
    return " ".join(re.findall(r"\w+", text.casefold()))


def marks(text: str) -> str:
    """A question in small letters that keeps the marks of names, addresses and slots."""
    return " ".join(re.sub(r"[^\w\s{}.:/@~*-]", " ", text.casefold()).split()).rstrip(".")


def shape(question: str) -> str:
    """A pattern of what a question becomes with its slots filled, each by one word with the slot's ending."""
    parts = re.split(SLOT, marks(question))
    slots = [r"\S+" + re.escape("." + slot.partition(".")[2] if "." in slot else "") for slot in parts[1::2]]
    return "".join(re.escape(part) + slot for part, slot in zip(parts[::2], [*slots, ""]))


def learnt() -> Iterator[str]:
    """Every question that the recipe holds."""
    for path in sorted(EVERYDAY.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            need = json.loads(line)
            for part in (need, *need.get("followups", [])):
                yield from part["questions"]


@pytest.fixture(scope="module")
def questions() -> set[str]:
    found = set(learnt())
    assert len(found) > 15_000
    return found


@pytest.fixture(scope="module")
def shapes(questions: set[str]) -> re.Pattern[str]:
    templates = [shape(question) for question in questions if SLOT.search(question)]
    assert len(templates) > 1_000
    return re.compile("|".join(f"(?:{template})" for template in templates))


@pytest.mark.parametrize("path", NEVER, ids=lambda path: path.stem)
def test_the_recipe_has_none_of_the_questions_and_no_value_makes_one(path, questions, shapes) -> None:
    known, asked = {words(question) for question in questions}, last_questions(path)
    assert [name for name, one in asked.items() if words(one) in known or shapes.fullmatch(marks(one))] == []


def test_a_question_with_its_slot_filled_is_seen(shapes: re.Pattern[str], questions: set[str]) -> None:
    asked = [question for question in sorted(questions) if SLOT.findall(question) == ["file"]]
    assert len(asked) > 100
    assert all(shapes.fullmatch(marks(one.replace("{file}", "notes.txt"))) for one in asked[:100])
