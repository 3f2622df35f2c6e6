"""Sampled trees: drawn from what is sent with them, within the pace, and never chosen by what is drawn later."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import permutations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from drafter.coin import coin
from drafter.cost import Cost
from drafter.multicandidate import DraftSampling, draw_order, grow_sampled, sibling_chances
from drafter.search import Pace
from models.tree import MAX_WEIGHT, ROOT
from tests.drafter.test_search import Table, paces, paths_of, seeds

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


def test_cold_sampling_is_the_greedy_chain_and_hot_sampling_is_uniform():
    cold = sampled(Table(3), Pace(5, 4, 9), DraftSampling(1e-6))
    assert cold.tokens.tolist() == Table(3).grow(Pace(5, 1, 5)).tokens.tolist()
    assert all(len(candidates) == 1 for candidates in cold.candidates.values())
    assert DraftSampling(1e9).weights(np.array([[0.0, -3.0, -9.0]])).tolist() == [[MAX_WEIGHT] * 3]


def test_lists_are_drawn_from_one_after_the_other():
    weights = np.array([[5, 3, 0, 1, 1]]).repeat(20_000, 0)
    orders = draw_order(weights, np.random.default_rng(1))
    assert (orders[:, 4] == 2).all()
    counts = Counter(map(tuple, orders[:, :2].tolist()))
    pairs = list(permutations([0, 1, 3, 4], 2))
    shares = [weights[0, a] / 10 * weights[0, b] / (10 - weights[0, a]) for a, b in pairs]
    assert agrees([counts[pair] for pair in pairs], shares)


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


@given(st.lists(st.integers(0, MAX_WEIGHT), min_size=1, max_size=12).filter(any), seeds, st.floats(-9, 0))
def test_at_most_one_sibling_is_accepted(weights, seed, shift):
    weights = np.array([weights])
    drawn = np.take_along_axis(weights, draw_order(weights, np.random.default_rng(seed)), axis=1)
    for acceptance in (None, lambda log_probs, depth, attempt: log_probs + shift / attempt):
        chances = sibling_chances(weights, drawn, 1, acceptance)[0]
        assert (np.diff(chances) <= 0).all() and chances.min() >= 0 and chances.sum() <= 1 + 1e-9
        assert ((chances > 0) <= (drawn[0] > 0)).all()


def test_the_draft_and_the_coin_that_judges_it_are_unrelated():
    drafted = [DraftSampling(1.0, seed=5).generator(position).random() for position in range(4000)]
    for attempt in range(3):
        tossed = [coin(5, position, attempt) for position in range(4000)]
        assert abs(np.corrcoef(drafted, tossed)[0, 1]) < 0.06
    assert abs(np.corrcoef(drafted[1:], drafted[:-1])[0, 1]) < 0.06


def test_no_room_gives_the_empty_tree():
    for pace in (Pace(0, 1, 1), Pace(1, 0, 1), Pace(1, 1, 0)):
        tree = sampled(Table(0), pace, DraftSampling(1.0))
        assert len(tree) == 0 and tree.expected_tau == 1.0
