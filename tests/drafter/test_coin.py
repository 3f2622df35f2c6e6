"""Coins are fixed by seed and position, and sampled trees are drawn with them from what is sent."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drafter.coin import Coins, arrivals, coin, contenders, race
from drafter.context import DraftContext
from drafter.cost import Cost
from drafter.multicandidate import DraftSampling, grow_sampled
from drafter.search import Pace
from models.tree import MAX_WEIGHT, ROOT
from tests.drafter.test_search import Table, paces, paths_of
from tests.drafter.trees import seeds, write_alone


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
        won = [race(np.arange(12), row, 9, at) for row, at in zip(weights, positions.tolist())]
        assert tokens[:, 0].tolist() == won
        assert (np.diff(log_probs, axis=1) <= 0).all() and (np.sort(tokens, axis=1) == np.arange(12)).all()
        np.testing.assert_allclose(np.exp(log_probs.astype(np.float64)).sum(axis=1), 1.0, atol=1e-5)
    assert Coins.at(0.0, 9) is None and Coins.at(1.0, 9) == Coins(9, 1.0)
    cold = np.array([[0.0, -0.1, -30.0]], np.float32), np.array([[4, 2, 9]])
    log_probs, tokens = Coins(1, 1e-300).ranked(cold, np.array([3]))
    assert tokens[0].tolist() == [4, 2, 9] and log_probs[0, 0] == 0.0, "a tiny temperature takes the likeliest"


# ---- written out a second time ---------------------------------------------------------------------------------------


TOP = 16
"""Candidates of a step, as in the config of the tiny drafter."""


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


# ---- sampled trees, which are never chosen by what is drawn later ----------------------------------------------------


samplings = st.builds(
    DraftSampling,
    temperature=st.floats(0.05, 5),
    top_k=st.integers(0, 5),
    top_p=st.floats(0.05, 1),
    seed=st.integers(-(2**63), 2**63 - 1),
)
LIMIT = {2: 18.4, 3: 21.1, 11: 37.4}
"""The 99.99 % points of chi-square, by degrees of freedom."""


def sampled(table, pace, sampling, position=0, acceptance=None):
    return grow_sampled(table.stack([()]), table.expand, pace, sampling, position, acceptance)


def agrees(counts, shares):
    """A chi-square test. Seeds are fixed, so this passes or fails for good."""
    expected = np.array(shares) / sum(shares) * sum(counts)
    assert expected.min() > 5
    return ((np.array(counts) - expected) ** 2 / expected).sum() < LIMIT[len(counts) - 1]


@given(seeds, paces, samplings)
def test_a_tree_is_within_the_pace_and_each_parent_sends_the_warped_list_of_its_path(seed, pace, sampling):
    table = Table(seed)
    tree = sampled(table, pace, sampling)
    assert len(table.calls) <= pace.depth - 1 and max(table.calls, default=0) <= pace.breadth
    assert 1 <= len(set(paths_of(tree))) == len(tree) <= pace.nodes and tree.depths().max() <= pace.depth
    assert 1 <= tree.expected_tau <= tree.depths().max() + 1 + 1e-9
    dear = sampled(Table(seed), replace(pace, cost=Cost(0.01, 1.0, 1.0)), sampling)
    assert paths_of(dear) == paths_of(tree), "what a round costs leaves out no draw"
    for parent, candidates in tree.candidates.items():
        log_probs, ids = table.proposals(tuple(int(tree.tokens[at]) for at in tree.path(parent)))
        weights = sampling.weights(log_probs[None])[0]
        assert candidates.tokens.tolist() == ids[weights > 0].tolist()
        assert candidates.weights.tolist() == weights[weights > 0].tolist()


@given(seeds, samplings)
def test_weights_are_those_of_transformers_warpers_on_the_list(seed, sampling):
    log_probs = np.sort(np.random.default_rng(seed).normal(0, 3, (1, 12)))[:, ::-1]
    shares = np.exp(log_probs[0] / sampling.temperature - log_probs[0, 0] / sampling.temperature)
    kept = shares[: sampling.top_k or None]
    better = np.cumsum(kept) - kept
    kept = kept[better < sampling.top_p * kept.sum()]
    expected = np.zeros(12)
    expected[: len(kept)] = kept
    np.testing.assert_allclose(sampling.weights(log_probs)[0] / MAX_WEIGHT, expected, atol=0.51 / MAX_WEIGHT)


class Rivals(Table):
    """Proposals whose confidence depends on the token they follow: places compete for the tree by what was drawn."""

    def proposals(self, path):
        sharp = 1.0 if not path else 3.0 if path[-1] % 2 else 0.1
        shares = np.exp(-sharp * np.arange(4))
        return np.log(shares / shares.sum()).astype(np.float32), np.arange(4)


def test_what_is_drawn_has_no_say_in_whether_it_is_sent():
    first, second = Counter(), Counter()
    weights = DraftSampling(1.0).weights(Rivals(0).proposals(())[0][None])[0]
    runs = 2000
    for seed in range(runs):
        drawn = list(sampled(Rivals(0), Pace(3, 2, 2), DraftSampling(1.0, seed=seed)).children()[ROOT])
        first[drawn[0]] += 1
        if len(drawn) > 1:
            second[tuple(drawn)] += 1
    assert agrees([first[token] for token in range(4)], weights)
    # Whether there is a second child may depend on the first one; which one it is must not depend on being sent.
    for one in {pair[0] for pair in second}:
        others = [token for token in range(4) if token != one]
        assert agrees([second[one, token] for token in others], weights[others])
    assert 0.1 * runs < sum(second.values()) < 0.9 * runs


def test_the_draft_and_the_coin_that_judges_it_are_unrelated_and_no_room_gives_the_empty_tree():
    drafted = [DraftSampling(1.0, seed=5).generator(position).random() for position in range(4000)]
    for attempt in range(3):
        tossed = [coin(5, position, attempt) for position in range(4000)]
        assert abs(np.corrcoef(drafted, tossed)[0, 1]) < 0.06
    assert abs(np.corrcoef(drafted[1:], drafted[:-1])[0, 1]) < 0.06
    for pace in (Pace(0, 1, 1), Pace(1, 0, 1), Pace(1, 1, 0)):
        tree = sampled(Table(0), pace, DraftSampling(1.0))
        assert len(tree) == 0 and tree.expected_tau == 1.0
