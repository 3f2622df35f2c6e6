"""The text that the drafter writes alone with a seed is drawn by the coins of that seed, position by position.

The coin is written out here a second time, in another way than in `drafter/coin.py`, so that both cannot be wrong
together.
"""

from __future__ import annotations

import hashlib
import itertools
import math

import pytest

from drafter.coin import coin
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


def drawn(context: DraftContext, temperature: float, share: float) -> int:
    """The token at this share of the step's candidates, which stand in the order of their ids."""
    tree = context.draft(Pace(depth=1, breadth=TOP, nodes=TOP))
    assert len(tree.tokens) == TOP
    candidates = sorted(zip(map(int, tree.tokens), map(float, tree.log_probs)))
    weights = [math.exp(log_prob / temperature) for _, log_prob in candidates]
    for (token, _), reached in zip(candidates, itertools.accumulate(weights)):
        if share * sum(weights) < reached:
            return token
    return candidates[-1][0]


@pytest.mark.parametrize("seed", [0, 1, 7, -1, 2**40 + 3])
@pytest.mark.parametrize("position", [0, 1, 5, 1000, 2**33])
def test_the_coin_is_as_it_is_written_down(seed, position):
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
            expected.append(drawn(other, temperature, toss(seed, place)))
            other.commit(expected[-1:])
        assert text == expected
