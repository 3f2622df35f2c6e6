"""Tokens a round from hits, and when a version is surely better than another."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as some

from drafter.learning.comparison import Judged, compare, is_better, rounds_of, surely_less, tau

Flags = some.lists(some.booleans(), max_size=60)


def slow_rounds(hits: list[bool], depth: int) -> int:
    """The rounds that it takes to write a text, one guess after another."""
    rounds = at = 0
    while at < len(hits):
        rounds, kept = rounds + 1, 0
        while kept < depth and at < len(hits) and hits[at]:
            at, kept = at + 1, kept + 1
        at += 1  # The bonus token.
    return rounds


@given(Flags, some.integers(1, 9))
def test_rounds_are_those_of_guessing_token_by_token(hits: list[bool], depth: int) -> None:
    assert rounds_of(np.array(hits, bool), depth) == (len(hits), slow_rounds(hits, depth))


def test_tau_is_over_all_answers() -> None:
    right, wrong = np.ones(18, bool), np.zeros(6, bool)
    assert tau([right], depth=8) == 9.0
    assert tau([wrong]) == 1.0
    assert tau([right, wrong], depth=8) == 24 / 8
    assert tau([]) == 0.0


def answers(share: float, seed: int) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    return [random.random(40) < share for _ in range(60)]


def test_a_gain_must_be_sure_and_lose_nothing_on_the_fixed_set() -> None:
    good, bad = answers(0.85, 1), answers(0.6, 2)
    better, worse = compare(bad, good), compare(good, bad)
    assert better.low > 0 and better.low < better.gain < better.high
    assert is_better(better, better) and not is_better(worse, better)
    assert not is_better(better, worse), "the fixed set lost more than 1 %"
    nothing, same = Judged(0.0, 0.0, 0.0, 0.0, 0), compare(good, good)
    assert same.gain == same.low == same.high == 0 and not is_better(same, same)
    assert is_better(better, nothing) and not is_better(nothing, nothing)
    few = compare(bad[:2], [bad[0], good[1]])
    assert few.low <= 0, "two answers say nothing for sure"


def test_a_version_that_gains_less_than_what_was_before_is_found() -> None:
    before, same, less = [(40, 8)] * 30, [(40, 8)] * 25, [(40, 10)] * 25
    assert surely_less(less, before)
    assert not surely_less(same, before)
    assert not surely_less(before, less)
