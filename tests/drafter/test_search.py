from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from drafter.cost import Cost
from drafter.search import Pace, grow
from models.tree import ROOT
from tests.drafter.trees import seeds, worth

paces = st.builds(Pace, depth=st.integers(1, 5), breadth=st.integers(1, 4), nodes=st.integers(1, 30))


class Table:
    """A drafter whose proposals are drawn anew for each path, so that every path can be checked."""

    def __init__(self, seed, top=4, coarse=False):
        self.seed, self.top, self.coarse, self.paths, self.calls = seed, top, coarse, [], []

    def proposals(self, path):
        random = np.random.default_rng([self.seed, *path])
        log_probs = np.log(random.dirichlet(np.full(8, 0.3))[: self.top]).astype(np.float32)
        if self.coarse:  # Many ties, zeros among them.
            log_probs = np.ceil(log_probs)
        order = np.argsort(-log_probs, kind="stable")
        return log_probs[order], random.permutation(50)[: self.top][order]

    def stack(self, paths):
        log_probs, ids = zip(*map(self.proposals, paths), strict=True)
        return np.stack(log_probs), np.stack(ids)

    def expand(self, tokens, parents):
        count = len(self.paths)
        for token, above in zip(tokens, parents):  # A guessed chain comes with its nodes' parents in the same call.
            self.paths.append((*(self.paths[above] if above != ROOT else ()), int(token)))
        assert len(set(self.paths)) == len(self.paths)
        self.calls.append(len(tokens))
        return self.stack(self.paths[count:])

    def grow(self, pace, acceptance=None, guess=()):
        return grow(self.stack([()]), self.expand, pace, acceptance, guess)

    def path(self, choices):
        """The tokens that those choices lead to. Number 0 is the best proposal of each step."""
        path = []
        for choice in choices:
            path.append(int(self.proposals(tuple(path))[1][choice]))
        return path


def plain(table, pace, acceptance=None):
    """A plain version of the search: path -> score."""
    scores, frontier = {}, {(): 0.0}
    for depth in range(1, pace.depth + 1):
        level = {}
        for path, score in frontier.items():
            log_probs, tokens = table.proposals(path)
            logs = np.minimum(log_probs[: pace.breadth], 0)
            if acceptance is not None:
                logs = acceptance(logs, depth, 1)
                logs = logs - max(0.0, np.log(np.exp(logs).sum()))
            level |= {(*path, int(token)): score + float(log) for token, log in zip(tokens, logs, strict=False)}
        scores |= level
        frontier = dict(sorted(level.items(), key=lambda item: -item[1])[: pace.breadth])
    return dict(sorted(scores.items(), key=lambda item: -item[1])[: pace.nodes])


def paths_of(tree):
    return [tuple(int(tree.tokens[at]) for at in tree.path(node)) for node in range(len(tree))]


@given(seeds, paces, st.booleans())
def test_it_finds_the_best_candidates_level_by_level_within_the_pace(seed, pace, coarse):
    table = Table(seed, coarse=coarse)
    tree, best = table.grow(pace), plain(Table(seed, coarse=coarse), pace)
    scores = [float(tree.log_probs[tree.path(node)].sum()) for node in range(len(tree))]
    np.testing.assert_allclose(sorted(scores), sorted(best.values()), atol=1e-4)
    assert len(set(paths_of(tree))) == len(tree) <= pace.nodes and tree.depths().max() <= pace.depth
    assert coarse or set(paths_of(tree)) == set(best)
    assert len(table.calls) <= pace.depth - 1 and max(table.calls, default=0) <= pace.breadth


@given(seeds, paces, st.floats(0.1, 3))
def test_calibrated_chances_rank_the_nodes(seed, pace, slope):
    def acceptance(log_probs, depth, attempt):
        return slope * log_probs.astype(np.float64) / depth

    tree, best = Table(seed).grow(pace, acceptance), plain(Table(seed), pace, acceptance)
    assert set(paths_of(tree)) == set(best)
    np.testing.assert_allclose(sorted(np.log(tree.acceptance)), sorted(best.values()), atol=1e-4)


seconds = st.floats(1e-3, 1.0)
costs = st.builds(Cost, seconds, seconds, seconds)


@given(seeds, paces, costs)
def test_no_node_more_or_less_would_gain_more_a_second(seed, pace, cost):
    table = Table(seed)
    tree = table.grow(replace(pace, cost=cost))
    chances, levels = -np.sort(-tree.acceptance), 1 + len(table.calls)
    rates = cost.rates(chances, levels)
    assert rates.argmax() == len(tree)
    whole = Table(seed).grow(replace(pace, depth=levels))
    assert set(paths_of(tree)) <= set(paths_of(whole))
    if len(whole) > len(tree):
        next_best = np.sort(whole.acceptance)[::-1][len(tree)]
        # What a level might gain is known only after it.
        hoped = 1 + cost.level / (cost.round + cost.level)
        assert cost.rates(np.append(chances, next_best), levels)[-1] <= rates[-1] * hoped


guesses = st.tuples(st.lists(st.sampled_from([0, 0, 0, 1, 2, 3]), max_size=8), st.lists(st.integers(0, 60), max_size=2))
"""Choices among a drafter's proposals, then tokens that may be none of them."""
deep_paces = st.builds(Pace, *(st.integers(1, most) for most in (5, 4, 30)), deepest=st.integers(0, 8))


@given(seeds, deep_paces, guesses, st.booleans())
def test_a_guess_never_makes_a_tree_worse_and_runs_beside_the_first_level(seed, pace, guess, coarse):
    table = Table(seed, coarse=coarse)
    guess = [*table.path(guess[0]), *guess[1]][: pace.deepest]
    # `Table.expand` refuses to run a path again.
    tree, without = table.grow(pace, guess=guess), Table(seed, coarse=coarse).grow(pace)
    assert worth(tree) >= worth(without) - 1e-4
    assert len(without) <= len(tree) <= pace.nodes and tree.depths().max() <= max(pace.depth, pace.deepest)
    assert len(table.calls) <= pace.depth - 1
    assert max(table.calls[:1], default=0) <= pace.breadth + len(guess)
    assert max(table.calls[1:], default=0) <= pace.breadth
    for path, node in zip(paths_of(tree), range(len(tree))):
        proposed = dict(zip(table.proposals(path[:-1])[1].tolist(), table.proposals(path[:-1])[0]))
        assert abs(min(proposed[path[-1]], 0) - tree.log_probs[node]) < 1e-5


def test_a_copy_goes_deeper_than_the_search():
    copy = Table(3).path([0] * 8)

    class Sure(Table):
        """Sure that the copied path comes."""

        def proposals(self, path):
            log_probs, ids = super().proposals(path)
            return (np.array([0, -9, -9, -9], np.float32) if list(path) == copy[: len(path)] else log_probs), ids

    assert Sure(3).grow(Pace(3, 2, 12)).depths().max() == 3
    for deepest in (6, 8):
        tree = Sure(3).grow(Pace(3, 2, 12, deepest), guess=copy[:deepest])
        assert tree.depths().max() == deepest and tuple(copy[:deepest]) in paths_of(tree)


def test_few_proposals_are_enough_and_no_room_gives_the_empty_tree():
    for pace in (Pace(0, 1, 1), Pace(1, 0, 1), Pace(1, 1, 0)):
        assert len(Table(0).grow(pace)) == 0
    for top, breadth, nodes in ((1, 8, 3), (2, 3, 2 + 4 + 3 * 2), (2, 8, 2 + 4 + 8)):
        assert len(Table(0, top=top).grow(Pace(3, breadth, 99))) == nodes
