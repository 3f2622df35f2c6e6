"""Coins are fixed by seed and position, and both the drafter and whoever knows the seed draw with them."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drafter.coin import Coins, arrivals, coin, contenders, race
from drafter.context import DraftContext
from drafter.search import Pace
from tests.drafter.trees import write_alone


def test_each_token_wins_with_its_probability():
    weights = np.array([0.5, 0.0, 3.0, 1e-9, 1.5, 0.0, 5.0])
    tokens = np.array([40, 3, 7, 11, 90_000, 2, 15])
    won = [race(tokens, weights, 7, position) for position in range(4000)]
    counts = np.array([won.count(token) for token in tokens])
    expected = 4000 * weights / weights.sum()
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


@given(st.integers(0, 10**6), st.sampled_from([0.0, 1.0, 4.0, 9.0]))
def test_the_first_of_a_whole_vocabulary_wins_however_light_it_is(seed, spread):
    leads, tokens = np.random.default_rng(seed).normal(0, spread, 20_000).astype(np.float32), np.arange(20_000)
    leads -= leads.max()
    weights, racing = np.exp(leads.astype(np.float64)), contenders(leads, seed, 1)
    assert race(racing, weights[racing], seed, 1) == (arrivals(seed, 1, tokens) / weights).argmin()


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


# ---- written out a second time ---------------------------------------------------------------------------------------


TOP = 16
"""Candidates of a step, as the config of the tiny drafter has them."""


def toss(seed: int, position: int, attempt: int = 0) -> float:
    """The first 53 bits of BLAKE2b of the numbers, 8 little-endian bytes each, as a share of 1; no attempt 0."""
    numbers = (seed % 2**64, position, *([attempt] if attempt else []))
    key = b"".join(number.to_bytes(8, "little") for number in numbers)
    digest = hashlib.blake2b(key, digest_size=8, person=b"outrider coin").digest()
    return (int.from_bytes(digest, "little") // 2**11) / 2**53


def arrival(seed: int, position: int, token: int) -> float:
    """An exponential time: minus the logarithm of a uniform number, which SplitMix64 makes of all three."""
    key = (seed % 2**64).to_bytes(8, "little") + position.to_bytes(8, "little")
    start = int.from_bytes(hashlib.blake2b(key, digest_size=8, person=b"outrider race").digest(), "little")
    mixed = (start + (token + 1) * 0x9E3779B97F4A7C15) % 2**64
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB % 2**64
    mixed ^= mixed >> 31
    return -math.log((mixed // 2**11 + 0.5) / 2**53)


def drawn(context: DraftContext, temperature: float, seed: int, position: int) -> int:
    """The first of the step's candidates to arrive, where a likelier one is faster."""
    tree = context.draft(Pace(depth=1, breadth=TOP, nodes=TOP))
    assert len(tree.tokens) == TOP
    candidates = zip(map(int, tree.tokens), map(float, tree.log_probs))
    times = {token: arrival(seed, position, token) / math.exp(log_prob / temperature) for token, log_prob in candidates}
    return min(times, key=times.__getitem__)


@pytest.mark.parametrize("seed", [0, -1, 2**40 + 3])
@pytest.mark.parametrize("position", [0, 1000, 2**33])
def test_the_coins_are_as_they_are_written_down(seed, position):
    tokens = np.array([0, 1, 151_935, 2**31 - 1])
    np.testing.assert_allclose(arrivals(seed, position, tokens), [arrival(seed, position, int(t)) for t in tokens])
    attempts = range(3)
    assert [coin(seed, position, one) for one in attempts] == [toss(seed, position, one) for one in attempts]


@pytest.mark.parametrize(("temperature", "seed", "length"), [(0.5, 0, 1), (1.0, 11, 9), (2.0, 12345, 1)])
def test_each_token_is_drawn_with_the_coin_of_its_own_place(tiny, temperature, seed, length):
    prompt, count = tiny.tokens(seed, length), 24
    context, other = tiny.context(prompt), tiny.context(prompt)
    expected = []
    for place in range(length, length + count):
        expected.append(drawn(other, temperature, seed, place))
        other.commit(expected[-1:])
    assert write_alone(context, count, temperature, seed) == expected
