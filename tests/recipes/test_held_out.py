"""The questions of `benchmarks.behaviour` are in none of the recipe's files, however a slot is filled."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from benchmarks.behaviour import SETS, read_behaviour
from recipes.shell_guide.conversations import EVERYDAY, evaluation_questions
from recipes.shell_guide.everyday import normalise
from recipes.shell_guide.slots import SLOT

pytestmark = pytest.mark.training


def words(text: str) -> str:
    """The words of a question in any script, in small letters."""
    return " ".join(re.findall(r"\w+", text.casefold()))


def marks(text: str) -> str:
    """A question in small letters that keeps the marks of names, addresses and slots."""
    return " ".join(re.sub(r"[^\w\s{}.:/@~*-]", " ", text.casefold()).split()).rstrip(".")


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


@pytest.mark.parametrize("name", SETS)
def test_the_recipe_has_none_of_the_questions(name: str, questions: set[str]) -> None:
    known = {words(question) for question in questions}
    assert [each.id for each in read_behaviour(name) if words(each.turns[-1]) in known] == []


@pytest.mark.parametrize("name", SETS)
def test_no_value_makes_one_of_them(name: str, questions: set[str]) -> None:
    """A slot takes one word."""
    templates = [
        r"\S+".join(map(re.escape, re.split(r"\{[\w.]+\}", marks(question))))
        for question in questions
        if SLOT.search(question)
    ]
    template = re.compile("|".join(f"(?:{each})" for each in templates))
    assert [each.id for each in read_behaviour(name) if template.fullmatch(marks(each.turns[-1]))] == []


def test_none_of_them_is_drawn_by_chance() -> None:
    excluded = evaluation_questions()
    asked = {normalise(each.turns[-1]) for name in SETS for each in read_behaviour(name)} - {""}
    assert asked <= excluded
