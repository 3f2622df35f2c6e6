"""The mixture: every kind of episode is drawn, and a conversation depends on (seed, index) alone. Talk, questions."""

from __future__ import annotations

import json
from copy import copy
from pathlib import Path

import numpy as np
import pytest

from models.guide.names import MARKS, names
from models.guide.pages import FILE
from recipes.shell_guide.conversations import evaluation_questions
from recipes.shell_guide.everyday import normalise
from recipes.shell_guide.grammar.intents import Asked, read_intents
from recipes.shell_guide.grammar.talk import read_talk
from recipes.shell_guide.mixture import MIX, Mixture
from recipes.shell_guide.ordinary import Ordinary
from tests.support.guide_pages import page

pytestmark = pytest.mark.training

INDEX = Path(__file__).parents[2] / "drafter/pretrained/shell-guide" / FILE
DRAWS = 12
WITHOUT_MARKS = dict.fromkeys(map(ord, MARKS))


@pytest.fixture(scope="module")
def mixture(tmp_path_factory: pytest.TempPathFactory) -> Mixture:
    path = tmp_path_factory.mktemp("pages") / "pages.jsonl"
    examples = (("Start a service", "frob start"), ("Stop a service", "frob stop"))
    path.write_text(json.dumps(page("common", "frob", "A test's program.", *examples, languages=3)) + "\n")
    return Mixture(path, INDEX, seed=3)


def test_a_conversation_depends_on_seed_and_index_alone(mixture: Mixture) -> None:
    drawn = [mixture.draw(index) for index in range(DRAWS)]
    assert drawn[::-1] == [mixture.draw(index) for index in reversed(range(DRAWS))]
    for messages in drawn:
        assert [role for role, _ in messages] == ["system", "user", "assistant"] * (len(messages) // 3)
        assert all(text.strip() for _, text in messages)


def test_most_names_have_marks_that_the_answer_uses(mixture: Mixture) -> None:
    marked = copy(mixture)
    marked._marks = True  # As `marks` says; to make another one takes seconds.
    named = missed = used = 0
    for index in range(4 * DRAWS):
        given: set[str] = set()
        for (role, plain), (_, read) in zip(mixture.draw(index), marked.draw(index), strict=True):
            if role == "user":
                assert read.translate(WITHOUT_MARKS) == plain
                named += len(names(plain))
                missed += len(names(plain)) - sum(read.count(mark) for mark in MARKS)
                given |= {*read} & {*MARKS}
            elif role == "assistant":
                assert {*read} & {*MARKS} <= given
                used += read != plain
    assert 0 < missed < named / 2 and used > DRAWS


@pytest.mark.parametrize("kind", MIX)
def test_every_kind_is_drawn(kind: str, mixture: Mixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mixture, "_kinds", [kind])
    monkeypatch.setattr(mixture, "_shares", [1.0])
    for index in range(DRAWS):
        assert all(text.strip() for _, text in mixture.draw(index))


def said(asked: Asked, rng: np.random.Generator) -> str:
    """One wording, or nothing if it names something."""
    text, named = asked.phrase.draw(rng)
    return "" if named else normalise(text)


def test_no_remark_is_also_a_question_with_a_command() -> None:
    rng = np.random.default_rng(7)
    asks = [one for intent in read_intents() for one in intent.asks]
    answered = {said(one, rng) for one in asks for _ in range(8)} - {""}
    # Of a question in another script only its English words would be left.
    english = [one for one in read_talk() if one.kind != "language"]
    remarks = {normalise(one.draw(rng)[0]) for one in english for _ in range(100)}
    assert not remarks & answered


def test_replies_hold_no_command() -> None:
    replies = [answer for one in read_talk() for answer in one.answers]
    assert replies and not [answer for answer in replies if "\n" in answer or "`" in answer.replace("`{program}`", "")]


def test_there_are_thousands_of_different_questions_and_none_of_a_measure() -> None:
    drawn = list(Ordinary(seed=3).different(8_000))
    alone = {normalise(first) for first, *after in drawn if not after}
    followed = {(first, after[0]) for first, *after in drawn if after}
    assert len(alone) >= 6_000 and len(followed) >= 1_500
    assert not {normalise(turn) for turns in drawn for turn in turns} & evaluation_questions()
    assert not [turn for turns in drawn for turn in turns if "{" in turn and "\n" not in turn], "only code has braces"
