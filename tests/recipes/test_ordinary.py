"""Ordinary questions: enough of them, all filled in, none of a measure, the same for the same seed."""

from __future__ import annotations

import pytest

from recipes.shell_guide.conversations import evaluation_questions
from recipes.shell_guide.everyday import normalise
from recipes.shell_guide.ordinary import Ordinary

pytestmark = pytest.mark.training


def test_there_are_thousands_of_different_questions_and_none_of_a_measure() -> None:
    drawn = list(Ordinary(seed=3).different(8_000))
    alone = {normalise(first) for first, *after in drawn if not after}
    followed = {(first, after[0]) for first, *after in drawn if after}
    assert len(alone) >= 6_000 and len(followed) >= 1_500
    assert not {normalise(turn) for turns in drawn for turn in turns} & evaluation_questions()
    assert not [turn for turns in drawn for turn in turns if "{" in turn and "\n" not in turn], "only code has braces"
