"""Draft trees by multi-candidate sampling (arXiv 2401.06706): children are drawn without replacement.

The verifier's recursive rejection keeps the target's own distribution only if each child was really drawn from the
distribution that is sent with it. Two rules follow.

First, the drafter's top list is warped, cut and rounded to whole weights *before* anything is drawn. So the few pairs
(id, weight) that are sent are the whole distribution, not an excerpt.

Second, the value of a child must not decide whether it gets into the tree. So a place in the tree is chosen before its
token is known: the score of a node's i-th child depends on what is left of the distribution after i - 1 siblings, never
on the token that comes next. Scores fall from sibling to sibling and from parent to child. So whether a place gets into
the tree or the frontier depends only on places with better scores and their tokens. The search in `drafter/search.py`
keeps to this rule.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from drafter.coin import LEAST_TEMPERATURE
from drafter.search import Acceptance, Children, Expand, Pace, Proposals, best_first
from models.tree import MAX_WEIGHT, ROOT, Candidates, DraftTree

_MASK = (1 << 64) - 1


@dataclass(frozen=True)
class DraftSampling:
    """How the drafter samples: the target's own settings, applied to the drafter's top list.

    The temperature is above 0.
    """

    temperature: float
    top_k: int = 0
    """0 turns it off."""
    top_p: float = 1.0
    seed: int = 0

    def weights(self, log_probs: NDArray[np.floating]) -> NDArray[np.int64]:
        """Integer weights of top lists: (M, K) best first -> (M, K) from 0 to `MAX_WEIGHT`.

        A token of weight 0 is left out; the best one never is.
        """
        # Differences are taken first: the log-probabilities divided by a tiny temperature would be infinite.
        below = log_probs.astype(np.float64) - log_probs[:, :1]
        shares = np.exp(below / max(self.temperature, LEAST_TEMPERATURE))
        if self.top_k:
            shares[:, self.top_k :] = 0.0
        if self.top_p < 1:
            better = np.cumsum(shares, axis=1) - shares
            shares[better >= self.top_p * shares.sum(axis=1, keepdims=True)] = 0.0
        weights: NDArray[np.int64] = np.rint(shares * MAX_WEIGHT).astype(np.int64)
        return weights

    def generator(self, position: int) -> np.random.Generator:
        """The random numbers of the draft that begins at `position`.

        They are independent of the target's coin, which `drafter.coin` derives from the same numbers. A draft drawn
        with the coin that judges it would be accepted or refused by its value, and the output would not follow the
        target. Another personalisation of the hash keeps the two unrelated.
        """
        key = struct.pack("<QQ", self.seed & _MASK, position & _MASK)
        digest = hashlib.blake2b(key, digest_size=16, person=b"outrider draft").digest()
        return np.random.default_rng(int.from_bytes(digest, "little"))


def grow_sampled(
    first: Proposals,
    expand: Expand,
    pace: Pace,
    sampling: DraftSampling,
    position: int,
    acceptance: Acceptance | None = None,
) -> DraftTree:
    """A sampled tree under a root whose proposals are `first`, each (1, K). `position` is that of the root's children.

    Siblings are in the order in which they were drawn, and in which the target tries them. `pace.cost` is ignored: with
    it, a node could be left out because of what was drawn below it, hence because of its own value, which would break
    exactness.
    """
    generator = sampling.generator(position)
    # Of the root, then of each node in the order of the runs.
    lists: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []

    def drawn(proposals: Proposals, depth: int) -> Children:
        weights, tokens = sampling.weights(proposals[0]), proposals[1]
        lists.extend(zip(tokens, weights))
        order = draw_order(weights, generator)[:, : pace.breadth]
        chosen = np.take_along_axis(weights, order, axis=1)
        chances = sibling_chances(weights, chosen, depth, acceptance)
        scores = np.log(chances, out=np.full(chances.shape, -np.inf), where=chances > 0)
        return Children(scores, np.take_along_axis(tokens, order, axis=1), None)

    if pace.empty:
        return DraftTree.empty()
    tree, runs = best_first(first, expand, replace(pace, cost=None), drawn)
    candidates = {}
    for parent in np.unique(tree.parents).tolist():
        tokens, weights = lists[0] if parent == ROOT else lists[1 + runs[parent]]
        candidates[parent] = Candidates(tokens[weights > 0], weights[weights > 0])
    return DraftTree(tree.tokens, tree.parents, acceptance=tree.acceptance, candidates=candidates)


def draw_order(weights: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.int64]:
    """The order of drawing without replacement: (M, K) weights -> (M, K) indices. Those of weight 0 come last.

    This is an exponential race: exponential times divided by the weights finish in exactly that order.
    """
    times = generator.standard_exponential(weights.shape)
    np.divide(times, weights, out=times, where=weights > 0)
    times[weights == 0] = np.inf
    return np.argsort(times, axis=1, kind="stable")


def confidence(weights: NDArray[np.int64], drawn: NDArray[np.int64]) -> NDArray[np.float64]:
    """The expected probability of each draw, before it is known: lists (M, K) and their drawn weights (M, B) -> (M, B).

    It is the sum of squared probabilities of what the earlier draws have left, and 0 if nothing is left. Integers keep
    it exact. Suppose that the target is sure of one token, and that the drafter's probabilities say which one. Then the
    target accepts a draw with exactly this probability; a target that is less sure accepts it more often.
    """
    rest = weights.sum(axis=1, keepdims=True) - np.cumsum(drawn, axis=1) + drawn
    squares = (weights**2).sum(axis=1, keepdims=True) - np.cumsum(drawn**2, axis=1) + drawn**2
    total = rest.astype(np.float64) ** 2
    expected: NDArray[np.float64] = np.divide(squares, total, out=np.zeros(drawn.shape), where=total > 0)
    return expected


def sibling_chances(
    weights: NDArray[np.int64], drawn: NDArray[np.int64], depth: int, acceptance: Acceptance | None
) -> NDArray[np.float64]:
    """The chance that each draw is the child that the target accepts: (M, B), falling, 0 where nothing is left.

    The target tries the i-th child only if it has refused those before it.
    """
    chances = confidence(weights, drawn)
    if acceptance is not None:
        logs = np.log(chances, out=np.full(chances.shape, -np.inf), where=chances > 0)
        chances = np.exp(acceptance(logs, depth, np.arange(1, chances.shape[1] + 1)))
    refused = np.cumprod(1.0 - chances, axis=1)
    reached = np.concatenate((np.ones((len(chances), 1)), refused[:, :-1]), axis=1)
    falling: NDArray[np.float64] = np.minimum.accumulate(reached * chances, axis=1)
    return falling
