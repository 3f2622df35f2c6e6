"""What is learnt from samples, and when it is surely better: a shift is followed; without one nothing is changed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as some

from drafter.learning.comparison import Judged, compare, is_better, rounds_of, surely_less, tau
from drafter.learning.correction import Rates, agreement, learn
from drafter.learning.distributions import MOST
from drafter.learning.samples import Samples

HIDDEN, VOCABULARY, TOP = 24, 200, 16


def drawn(count: int, seed: int, shift: float) -> Samples:
    """Samples of a drafter whose target differs from it by a low-rank map of its states, times `shift`.

    The target says its likeliest token, and nothing is known of what else it might have said.
    """
    fixed, random = np.random.default_rng(7), np.random.default_rng(seed)
    head = fixed.normal(size=(HIDDEN, VOCABULARY)).astype(np.float32)
    away = (fixed.normal(size=(HIDDEN, 3)) @ fixed.normal(size=(3, VOCABULARY))).astype(np.float32)
    states = random.normal(size=(count, HIDDEN)).astype(np.float32)
    logits = states @ head
    log_probs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    likeliest = np.argsort(-log_probs, axis=1)[:, :TOP]
    best = np.take_along_axis(log_probs, likeliest, axis=1)
    chosen = (logits + shift * states @ away).argmax(axis=1)
    said, chances = np.full((count, MOST), -1), np.zeros((count, MOST), np.float32)
    return Samples(states, likeliest, best, chosen, said, chances)


def test_a_shift_is_followed_and_without_one_nothing_gets_worse() -> None:
    learnt = learn(drawn(3000, 1, 1.0), drawn(400, 2, 1.0), VOCABULARY, Rates(rate=1e-2))
    unseen = drawn(1000, 3, 1.0)
    assert learnt is not None and learnt.down.dtype == learnt.up.dtype == np.float32
    assert learnt.up.shape == (learnt.down.shape[1], VOCABULARY)
    assert agreement(unseen, learnt) > agreement(unseen, None) + 0.1
    learnt = learn(drawn(600, 1, 0.0), drawn(300, 2, 0.0), VOCABULARY, Rates(rate=1e-2))
    unseen = drawn(1000, 3, 0.0)
    assert agreement(unseen, learnt) > agreement(unseen, None) - 0.01
    samples, judged = drawn(50, 1, 1.0), drawn(50, 2, 1.0)
    assert learn(replace(samples, chosen=np.full(50, -1)), judged, VOCABULARY) is None, "the head cannot draft these"
    assert learn(samples, samples.take(slice(0, 0)), VOCABULARY) is None
    assert learn(samples, judged, VOCABULARY, halted=lambda: True) is None


# ---- tokens a round from hits, and when a version is better ----------------------------------------------------------


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


def test_tau_is_over_all_answers_and_a_version_that_gains_less_is_found() -> None:
    right, wrong = np.ones(18, bool), np.zeros(6, bool)
    assert tau([right], depth=8) == 9.0
    assert tau([wrong]) == 1.0
    assert tau([right, wrong], depth=8) == 24 / 8
    assert tau([]) == 0.0
    before, same, less = [(40, 8)] * 30, [(40, 8)] * 25, [(40, 10)] * 25
    assert surely_less(less, before)
    assert not surely_less(same, before)
    assert not surely_less(before, less)


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
