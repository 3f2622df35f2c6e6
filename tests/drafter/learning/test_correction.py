"""What is learnt from samples: a shift is followed, and where there is none, nothing is changed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from drafter.learning.correction import Rates, agreement, learn
from drafter.learning.distributions import MOST
from drafter.learning.samples import Samples

HIDDEN, VOCABULARY, TOP = 24, 200, 16


def unknown(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Nothing is known of what the target might have said."""
    return np.full((count, MOST), -1), np.zeros((count, MOST), np.float32)


def drawn(count: int, seed: int, shift: float, *, told: bool = False) -> Samples:
    """Samples of a drafter whose target differs from it by a low-rank map of its states, times `shift`.

    The target says its likeliest token. `told`: it draws one, and tells its likeliest tokens.
    """
    fixed, random = np.random.default_rng(7), np.random.default_rng(seed)
    head = fixed.normal(size=(HIDDEN, VOCABULARY)).astype(np.float32)
    away = (fixed.normal(size=(HIDDEN, 3)) @ fixed.normal(size=(3, VOCABULARY))).astype(np.float32)
    states = random.normal(size=(count, HIDDEN)).astype(np.float32)
    logits = states @ head
    log_probs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    likeliest = np.argsort(-log_probs, axis=1)[:, :TOP]
    best = np.take_along_axis(log_probs, likeliest, axis=1)
    target = logits + shift * states @ away
    if not told:
        return Samples(states, likeliest, best, target.argmax(axis=1), *unknown(count))
    chances = np.exp(target - target.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    said = np.argsort(-chances, axis=1)[:, :MOST]
    chosen = np.array([random.choice(VOCABULARY, p=row / row.sum()) for row in chances.astype(np.float64)])
    return Samples(states, likeliest, best, chosen, said, np.take_along_axis(chances, said, axis=1))


def test_a_shift_is_followed() -> None:
    learnt = learn(drawn(3000, 1, 1.0), drawn(400, 2, 1.0), VOCABULARY, Rates(rate=1e-2))
    unseen = drawn(1000, 3, 1.0)
    assert learnt is not None and learnt.down.dtype == learnt.up.dtype == np.float32
    assert learnt.up.shape == (learnt.down.shape[1], VOCABULARY)
    assert agreement(unseen, learnt) > agreement(unseen, None) + 0.1


def test_where_there_is_no_shift_nothing_gets_worse() -> None:
    learnt = learn(drawn(600, 1, 0.0), drawn(300, 2, 0.0), VOCABULARY, Rates(rate=1e-2))
    unseen = drawn(1000, 3, 0.0)
    assert agreement(unseen, learnt) > agreement(unseen, None) - 0.01


def test_what_the_target_might_have_said_teaches_more_than_what_it_said() -> None:
    """Its choices are drawn, so each says little; its likeliest tokens with their chances say nearly all."""
    learnt, unseen = drawn(1500, 1, 1.0, told=True), drawn(1000, 3, 1.0)
    said, chances = unknown(1500)
    by_choice, by_chances = (
        learn(one, drawn(400, 2, 1.0), VOCABULARY, Rates(rate=1e-2))
        for one in (replace(learnt, said=said, chances=chances), learnt)
    )
    assert agreement(unseen, by_chances) > agreement(unseen, by_choice) + 0.02


def test_of_nothing_nothing_is_learnt_and_it_stops_when_it_is_told_to() -> None:
    samples, judged = drawn(50, 1, 1.0), drawn(50, 2, 1.0)
    assert learn(replace(samples, chosen=np.full(50, -1)), judged, VOCABULARY) is None, "the head cannot draft these"
    assert learn(samples, samples.take(slice(0, 0)), VOCABULARY) is None
    assert learn(samples, judged, VOCABULARY, halted=lambda: True) is None
