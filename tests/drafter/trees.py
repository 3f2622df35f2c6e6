"""What tests of drafting say of trees and of text by the drafter alone."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from drafter.context import DraftContext
from drafter.search import Pace
from models.tree import DraftTree

BUSH = Pace(depth=4, breadth=4, nodes=24)
few = settings(max_examples=12)
seeds = st.integers(0, 2**31)


def same_tree(one: DraftTree, other: DraftTree, atol: float = 2e-4) -> None:
    """Assert that two trees have the same nodes, and nearly the same log-probabilities."""
    np.testing.assert_array_equal(one.tokens, other.tokens)
    np.testing.assert_array_equal(one.parents, other.parents)
    np.testing.assert_allclose(one.log_probs, other.log_probs, atol=atol)


def worth(tree: DraftTree) -> float:
    """Nodes on the path of a text that the drafter itself draws, on average."""
    return sum(np.exp(tree.log_probs[tree.path(node)].astype(np.float64).sum()) for node in range(len(tree)))


def write_alone(context: DraftContext, steps: int, temperature: float = 0.0, seed: int = 0) -> list[int]:
    """The tokens of the first `steps` steps by the drafter alone. Without a second stage, a step gives one token."""
    return list(itertools.chain.from_iterable(itertools.islice(context.generate(temperature, seed), steps)))
