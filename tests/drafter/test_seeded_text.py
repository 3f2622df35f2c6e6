"""The text that the drafter writes alone with a seed is drawn by the coins of that seed, position by position.

The coins are written out here a second time, in another way than in `drafter/coin.py`, so that both cannot be wrong
together.
"""

from __future__ import annotations

import hashlib
import itertools
import math

import numpy as np
import pytest

from drafter.coin import arrivals, coin
from drafter.context import DraftContext
from drafter.search import Pace

TEMPERATURES = (0.5, 1.0, 2.0)
COUNT = 24
TOP = 16
"""Candidates of a step, as the config of the tiny drafter has them."""


def toss(seed: int, position: int) -> float:
    """The first 53 bits of BLAKE2b of both numbers, 8 little-endian bytes each, as a share of 1."""
    key = (seed % 2**64).to_bytes(8, "little") + position.to_bytes(8, "little")
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


@pytest.mark.parametrize("seed", [0, 1, 7, -1, 2**40 + 3])
@pytest.mark.parametrize("position", [0, 1, 5, 1000, 2**33])
def test_the_coins_are_as_they_are_written_down(seed, position):
    tokens = np.array([0, 1, 7, 151_935, 2**31 - 1])
    np.testing.assert_allclose(arrivals(seed, position, tokens), [arrival(seed, position, int(t)) for t in tokens])
    assert coin(seed, position) == toss(seed, position)
    assert coin(seed, position) != coin(seed, position + 1) != coin(seed + 1, position)


@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize("length", [1, 9])
def test_each_token_is_drawn_with_the_coin_of_its_own_place(tiny, temperature, length):
    for seed in (0, 11, 12345):
        prompt = tiny.tokens(seed, length)
        context, other = tiny.context(prompt), tiny.context(prompt)
        text = list(itertools.chain.from_iterable(itertools.islice(context.generate(temperature, seed), COUNT)))
        expected = []
        for place in range(length, length + COUNT):
            expected.append(drawn(other, temperature, seed, place))
            other.commit(expected[-1:])
        assert text == expected
