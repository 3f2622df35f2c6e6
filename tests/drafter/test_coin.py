from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from drafter.coin import Coins, arrivals, coin, race


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


def test_times_are_fixed_for_ever_too():
    np.testing.assert_allclose(
        arrivals(0, 0, np.arange(3)), [0.5125103570061655, 1.4300412989620652, 0.5055903524964855], rtol=1e-12
    )
    np.testing.assert_array_equal(arrivals(-1, 7, np.arange(9)), arrivals(2**64 - 1, 7, np.arange(9)))


def test_times_are_exponential_and_unrelated():
    tokens = np.arange(200)
    times = np.stack([arrivals(3, position, tokens) for position in range(200)])
    counts = np.histogram(np.exp(-times), 20, (0, 1))[0]
    assert ((counts - 2000) ** 2 / 2000).sum() < 43.8  # chi-square, 19 degrees of freedom, p = 0.001
    other = np.stack([arrivals(4, position, tokens) for position in range(200)])
    for one, another in ((times[:-1], times[1:]), (times[:, :-1], times[:, 1:]), (times, other)):
        assert abs(np.corrcoef(one.ravel(), another.ravel())[0, 1]) < 0.02


def test_each_token_wins_with_its_probability():
    weights = np.array([0.5, 0.0, 3.0, 1e-9, 1.5, 0.0, 5.0])
    tokens = np.array([40, 3, 7, 11, 90_000, 2, 15])
    won = [race(tokens, weights, 7, position) for position in range(20_000)]
    counts = np.array([won.count(token) for token in tokens])
    expected = 20_000 * weights / weights.sum()
    assert counts[[1, 3, 5]].sum() == 0
    likely = [0, 2, 4, 6]
    assert ((counts[likely] - expected[likely]) ** 2 / expected[likely]).sum() < 16.3  # 3 degrees, p = 0.001


@given(st.lists(st.sampled_from([0.0, 1e-300, 1e-17, 0.2, 1.0, 30.0]), min_size=1, max_size=9), st.integers(0, 999))
def test_a_token_of_weight_zero_never_wins_and_others_do_not_matter(weights, position):
    if not any(weights):
        return
    weighted, tokens = np.array(weights), np.arange(len(weights)) * 3
    winner = race(tokens, weighted, 5, position)
    assert weighted[winner // 3] > 0
    without = np.append(weighted, 0.0), np.append(tokens, 4)
    assert race(without[1], without[0], 5, position) == winner
    assert race(tokens, weighted * 0.25, 5, position) == winner


def test_a_drafter_that_knows_the_coins_ranks_what_they_draw_first():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(400, 12)) * 2
    order = np.argsort(-logits, axis=1)
    proposals = np.take_along_axis(logits, order, axis=1).astype(np.float32), order
    positions = np.arange(100, 500)
    for temperature in (0.3, 1.0, 2.0):
        log_probs, tokens = Coins(9, temperature).ranked(proposals, positions)
        weights = np.exp(logits / temperature)
        assert tokens[:, 0].tolist() == [
            race(np.arange(12), row, 9, at) for row, at in zip(weights, positions.tolist())
        ]
        assert (np.diff(log_probs, axis=1) <= 0).all() and (np.sort(tokens, axis=1) == np.arange(12)).all()
        np.testing.assert_allclose(np.exp(log_probs.astype(np.float64)).sum(axis=1), 1.0, atol=1e-5)
    assert Coins.at(0.0, 9) is None and Coins.at(1.0, 9) == Coins(9, 1.0)


def test_a_tiny_temperature_takes_the_likeliest():
    proposals = np.array([[0.0, -0.1, -30.0]], np.float32), np.array([[4, 2, 9]])
    log_probs, tokens = Coins(1, 1e-300).ranked(proposals, np.array([3]))
    assert tokens[0].tolist() == [4, 2, 9] and log_probs[0, 0] == 0.0
