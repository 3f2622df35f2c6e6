"""Remarks that Shell Guide declines: no reply holds a command, and no intent answers the same words."""

import numpy as np
import pytest

from recipes.shell_guide.everyday import normalise
from recipes.shell_guide.grammar.intents import Asked, read_intents
from recipes.shell_guide.grammar.talk import Talk, read_talk

pytestmark = pytest.mark.training

DRAWS = 100


@pytest.fixture(scope="module")
def talk() -> list[Talk]:
    return read_talk()


def said(asked: Asked, rng: np.random.Generator) -> str:
    """One wording, or nothing if it names something."""
    text, named = asked.phrase.draw(rng)
    return "" if named else normalise(text)


def test_no_remark_is_also_a_question_with_a_command(talk: list[Talk]) -> None:
    rng = np.random.default_rng(7)
    asks = [one for intent in read_intents() for one in intent.asks]
    answered = {said(one, rng) for one in asks for _ in range(8)} - {""}
    # Of a question in another script only its English words would be left.
    english = [one for one in talk if one.kind != "language"]
    remarks = {normalise(one.draw(rng)[0]) for one in english for _ in range(DRAWS)}
    assert not remarks & answered


def test_replies_hold_no_command(talk: list[Talk]) -> None:
    replies = [answer for one in talk for answer in one.answers]
    assert replies and not [answer for answer in replies if "\n" in answer or "`" in answer.replace("`{program}`", "")]
