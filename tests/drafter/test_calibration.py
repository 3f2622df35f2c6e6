"""Learnt acceptance: the identity at first, the truth in the end, sound in between."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from drafter.calibration import Calibration, judged
from models.tree import ROOT, Candidates, DraftTree
from tests.drafter.trees import seeds

TEN = np.arange(10)


def verdicts(tree, chances, random):
    """The verdict of a target that accepts one child of each node, or none, with these chances (n,)."""
    accepted, at, children = [], ROOT, tree.children()
    while at in children:
        nodes = list(children[at].values())
        left = 1 - chances[nodes].sum()
        assert left > -1e-9
        taken = random.choice([*nodes, ROOT], p=np.clip([*chances[nodes], left], 0, 1))
        if taken == ROOT:
            break
        accepted.append(int(taken))
        at = int(taken)
    return accepted, 10**6  # A token that no node carries.


def some_tree(random, width=4, depth=4):
    """Every node's children have random probabilities; the first is the next parent."""
    tokens, parents, log_probs, above = [], [], [], ROOT
    for _ in range(depth):
        shares = np.sort(random.dirichlet(np.full(width + 1, 0.5))[:width])[::-1]
        tokens += TEN[:width].tolist()
        parents += [above] * width
        log_probs += np.log(np.maximum(shares, 1e-6)).tolist()
        above = len(tokens) - width
    return DraftTree(np.array(tokens), np.array(parents), np.array(log_probs, np.float32))


def trained(rounds, truth, seed=0):
    """A calibration that has seen a target whose chances are `truth(log-probabilities, depths)`."""
    calibration, random = Calibration(), np.random.default_rng(seed)
    for _ in range(rounds):
        tree = some_tree(random)
        calibration.learn(tree, *verdicts(tree, truth(tree.log_probs, tree.depths()), random))
    return calibration


@given(seeds, st.integers(0, 30), st.integers(1, 20), st.integers(1, 9), st.booleans())
def test_it_is_bounded_and_monotone_whatever_it_has_seen(seed, rounds, depth, attempt, hostile):
    random, calibration = np.random.default_rng(seed), Calibration()
    for _ in range(rounds):
        tree = some_tree(random)
        least_likely = [int([*tree.children()[ROOT].values()][-1])]
        outcome = (least_likely, 10**6) if hostile else verdicts(tree, np.exp(tree.log_probs), random)
        calibration.learn(tree, *outcome)
    grid = np.concatenate(([-np.inf], np.linspace(-40, 0, 200)))
    logs = calibration(grid, depth, attempt)
    assert rounds or logs.tolist() == grid.tolist(), "it begins as the identity"
    assert np.isfinite(calibration.dump()).all()
    assert logs[0] == -np.inf and (logs <= 0).all() and (np.diff(logs[1:]) >= 0).all()


def overconfident(log_probs, depths):
    """Half of what the drafter says, and less with each level."""
    return 0.5 * np.exp(log_probs) * 0.9 ** (depths - 1)


def test_it_comes_near_the_truth():
    calibration, random, errors = trained(800, overconfident), np.random.default_rng(99), []
    for _ in range(100):
        tree = some_tree(random)
        learnt = np.exp(calibration(tree.log_probs, tree.depths()))
        errors.append(np.abs(learnt - overconfident(tree.log_probs, tree.depths())).mean())
    assert np.mean(errors) < 0.03


def test_of_a_sampled_tree_only_what_was_tried_is_judged():
    lists = {ROOT: Candidates(TEN, np.arange(1, 11)), 1: Candidates(TEN, np.ones(10))}
    tree = DraftTree(np.array([7, 2, 4, 1, 9]), np.array([ROOT, ROOT, ROOT, 1, 1]), candidates=lists)
    assert judged(tree, [1], 9)[1].tolist() == [0, 1, 0, 1]  # The room was full, so 9 came as the bonus.
    assert judged(tree, [1], 6)[1].tolist() == [0, 1, 0, 0]
    assert judged(tree, [1], None)[1].tolist() == [0, 1]
    assert judged(tree, [], 3)[1].tolist() == [0, 0, 0]


def test_a_tree_that_was_not_drafted_teaches_nothing_and_it_survives_its_numbers():
    calibration = Calibration()
    calibration.learn(DraftTree.chain([1, 2, 3]), [0, 1], 5)
    calibration.learn(DraftTree.empty(), [], 5)
    assert calibration.dump() == Calibration().dump()
    calibration = trained(50, overconfident)
    again = Calibration.load(calibration.dump())
    assert again.dump() == calibration.dump()
    tree = some_tree(np.random.default_rng(3))
    for one in (calibration, again):
        one.learn(tree, [0], 10**6)
    np.testing.assert_allclose(again.dump(), calibration.dump(), rtol=1e-9, atol=1e-12)
