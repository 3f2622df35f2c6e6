from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from drafter.coin import coin


@given(st.integers(), st.integers(0, 2**40))
def test_it_is_a_number_from_zero_to_one_and_always_the_same(seed, position):
    assert 0.0 <= coin(seed, position) < 1.0
    assert coin(seed, position) == coin(seed, position)


def test_it_is_fixed_for_ever_because_seeds_promise_the_same_text():
    assert coin(0, 0) == 0.8303172902962032
    assert coin(-1, 7) == coin(2**64 - 1, 7) == 0.5461187813245097


def test_every_attempt_has_a_coin_of_its_own():
    assert coin(0, 0, 0) == coin(0, 0) == 0.8303172902962032
    tosses = np.array([[coin(3, position, attempt) for attempt in range(4)] for position in range(5000)])
    assert len(np.unique(tosses)) == tosses.size
    assert np.abs(np.corrcoef(tosses.T) - np.eye(4)).max() < 0.06


def test_it_is_uniform_and_positions_are_independent():
    tosses = np.array([coin(3, position) for position in range(20_000)])
    counts = np.histogram(tosses, 20, (0, 1))[0]
    assert ((counts - 1000) ** 2 / 1000).sum() < 43.8  # chi-square, 19 degrees of freedom, p = 0.001
    assert abs(np.corrcoef(tosses[:-1], tosses[1:])[0, 1]) < 0.03
    assert abs(np.corrcoef(tosses, [coin(4, position) for position in range(20_000)])[0, 1]) < 0.03
