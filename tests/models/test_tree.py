from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.tree import MAX_WEIGHT, ROOT, Candidates, DraftTree, MalformedTree


@st.composite
def trees(draw):
    """Any tree of up to 24 nodes; siblings take tokens in turn, so they differ."""
    parents = [draw(st.integers(ROOT, node - 1)) for node in range(draw(st.integers(0, 24)))]
    tokens = [draw(st.integers(0, 5)) * 30 + parents[:node].count(parent) for node, parent in enumerate(parents)]
    scores = [draw(st.floats(-20, 0, width=32)) for _ in parents]
    return DraftTree(np.array(tokens), np.array(parents), np.array(scores))


@given(trees())
def test_depth_is_the_length_of_the_path_and_ancestors_are_its_nodes(tree):
    depths, mask = tree.depths(), tree.ancestors()
    assert mask.shape == (len(tree), len(tree)) and mask.dtype == bool
    for node in range(len(tree)):
        path = tree.path(node)
        assert path[-1] == node and depths[node] == len(path) and np.flatnonzero(mask[node]).tolist() == path
        assert [int(tree.parents[at]) for at in path] == [ROOT, *path[:-1]]
    assert tree.path(ROOT) == []


@given(trees(), st.booleans())
def test_the_likeliest_path_takes_the_best_child_at_each_level(tree, scored):
    if not scored:
        tree = DraftTree(tree.tokens, tree.parents)
    at, children = ROOT, tree.children()
    for node in tree.likeliest_path():
        assert tree.parents[node] == at
        if scored:
            assert tree.log_probs[node] == max(tree.log_probs[child] for child in children[at].values())
        else:
            assert node == min(children[at].values())
        at = node
    assert at not in children


@pytest.mark.parametrize(
    "tokens, parents, log_probs, why",
    [
        ([1, 2], [-1], None, "parents"),
        ([[1]], [[-1]], None, "parents"),
        ([1], [0], None, "node 0 has parent 0"),
        ([1, 2, 3], [-1, 2, 0], None, "node 1 has parent 2"),
        ([1, 2], [-1, -2], None, "node 1 has parent -2"),
        ([1, -7], [-1, 0], None, "negative token -7"),
        ([4, 4], [-1, -1], None, "siblings"),
        ([1, 2], [-1, 0], [-0.5], "log-probabilities"),
    ],
)
def test_what_is_no_tree_is_refused(tokens, parents, log_probs, why):
    with pytest.raises(MalformedTree, match=why):
        DraftTree(np.array(tokens), np.array(parents), None if log_probs is None else np.array(log_probs))


@pytest.mark.parametrize(
    "tokens, weights, why",
    [
        ([1, 2], [3], "2,. candidates, but .1,. weights"),
        ([[1]], [[1]], "candidates"),
        ([1, 2], [3, 0], "between 1 and"),
        ([1, 2], [3, MAX_WEIGHT + 1], "between 1 and"),
        ([1, -2], [3, 3], "negative candidate -2"),
        ([4, 4], [1, 1], "listed twice"),
    ],
)
def test_what_is_no_list_of_candidates_is_refused(tokens, weights, why):
    with pytest.raises(MalformedTree, match=why):
        Candidates(np.array(tokens), np.array(weights))


def test_a_sampled_tree_has_a_list_for_each_parent_and_any_tree_an_expected_tau():
    three, five = Candidates(np.array([4, 6, 8]), np.ones(3)), Candidates(np.arange(5), np.arange(1, 6))
    tree = DraftTree(np.array([8, 4, 2]), np.array([ROOT, ROOT, 1]), candidates={ROOT: three, 1: five})
    assert tree.candidates[ROOT].places(list(tree.children()[ROOT])).tolist() == [2, 0]
    assert tree.likeliest_path() == [0]
    for lists, why in [
        ({}, "2 nodes have children, but 0 lists"),
        ({ROOT: three}, "2 nodes have children, but 1 lists"),
        ({ROOT: three, 0: five}, "2 nodes"),
        ({ROOT: three, 1: five, 2: five}, "but 3 lists"),
        ({ROOT: three, 1: three}, "not among the candidates"),
        ({ROOT: three, 1: Candidates(np.zeros(0), np.zeros(0))}, "not among the candidates"),
    ]:
        with pytest.raises(MalformedTree, match=why):
            DraftTree(tree.tokens, tree.parents, candidates=lists)
    assert DraftTree.empty().expected_tau == 1.0
    assert DraftTree.chain([1, 2]).expected_tau is None
    assert DraftTree(np.array([1, 2]), np.array([ROOT, 0]), acceptance=np.array([0.5, 0.25])).expected_tau == 1.75


@given(st.lists(st.integers(-2, 9), max_size=8), st.lists(st.integers(-3, 9), max_size=8))
def test_any_numbers_make_a_sound_tree_or_the_typed_error(tokens, parents):
    try:
        tree = DraftTree(np.array(tokens, np.int64), np.array(parents, np.int64))
    except MalformedTree:
        return
    assert (tree.depths() == tree.ancestors().sum(axis=1)).all()
    assert len({tuple(tree.tokens[tree.path(node)]) for node in range(len(tree))}) == len(tree)
