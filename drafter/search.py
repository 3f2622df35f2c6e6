"""Draft trees by expand and rerank, as EAGLE-2 does (arXiv 2406.16858), in array operations only.

Level by level, one drafter call for the whole frontier: every node of the frontier proposes children, all of them are
kept as candidates, and the best become the next frontier. In the end the candidates with the highest scores form the
tree. Such a choice always holds its own ancestors, because a child's score is never above its parent's.
Deterministic: ties go to the earlier candidate. Knows nothing of caches or models.

A score is the log of how probable it is that the target accepts the node. `grow` takes the drafter's cumulative
log-probability for it, calibrated where experience is at hand; other modules rank children in other ways.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drafter.tree import ROOT, DraftTree

Proposals = tuple[NDArray[np.float32], NDArray[np.int64]]
"""For M nodes the likeliest next tokens, best first: log-probabilities (M, K) and token ids (M, K)."""

Expand = Callable[[NDArray[np.int64], NDArray[np.int64]], Proposals]
"""Runs M new nodes: their tokens (M,), and as parents (M,) the rank in which the parent was run, or `ROOT`."""

Acceptance = Callable[[NDArray[np.floating], int, int | NDArray[np.int64]], NDArray[np.float64]]
"""(log-probabilities, depth, attempt) -> log of how probable it is that nodes are accepted, their parents being.

`depth` is 1 for children of the root. `attempt`: the how-manieth of its siblings a node is that the target tries one
after the other, earlier ones being refused; always 1 where it does not try them so. It broadcasts."""


class Children(NamedTuple):
    """What M nodes propose, best first."""

    scores: NDArray[np.floating]
    """(M, B), falling and at most 0: log of how probable the child is once its parent is accepted; -inf: no child."""
    tokens: NDArray[np.int64]
    """(M, B)"""
    log_probs: NDArray[np.float32] | None
    """(M, B): the drafter's own, where they mean something."""


Rank = Callable[[Proposals, int], Children]
"""Makes children, at the given depth, of the proposals of M nodes. Called once a level, root first."""


@dataclass(frozen=True)
class Pace:
    """The shape of the next tree. A breadth of 1 makes a chain."""

    depth: int = 8
    """Levels, and drafter calls: the first call runs the root."""
    breadth: int = 8
    """Nodes run in one call, and children that each of them proposes."""
    nodes: int = 60
    """Size of the tree that goes up."""

    @property
    def empty(self) -> bool:
        return min(self.depth, self.breadth, self.nodes) < 1


class Found(NamedTuple):
    """The tree of the best candidates, and where each node stands in the order of the drafter's runs."""

    tree: DraftTree
    runs: NDArray[np.int64]
    """(n,): `ROOT` for nodes that were not run."""


def grow(first: Proposals, expand: Expand, pace: Pace, acceptance: Acceptance | None = None) -> DraftTree:
    """The tree of the likeliest candidates under a root whose proposals are `first`, each (1, K).

    `acceptance` turns log-probabilities into chances; without it a log-probability counts as what it says.
    """

    def likeliest(proposals: Proposals, depth: int) -> Children:
        log_probs, tokens = np.minimum(proposals[0][:, : pace.breadth], 0.0), proposals[1][:, : pace.breadth]
        if acceptance is None:
            return Children(log_probs, tokens, log_probs)
        scores = acceptance(log_probs, depth, 1)
        # At most one of them can be accepted.
        excess = np.maximum(np.logaddexp.reduce(scores, axis=1, keepdims=True), 0.0)
        return Children(scores - excess, tokens, log_probs)

    return DraftTree.empty() if pace.empty else best_first(first, expand, pace, likeliest).tree


def best_first(first: Proposals, expand: Expand, pace: Pace, rank: Rank) -> Found:
    """The tree of the candidates with the best scores.

    Stops early where no node of a level is among the best `pace.nodes` candidates so far: none of its descendants
    could be, so the tree is the same as without the stop.
    """
    children = rank(first, 1)
    scores = children.scores[0].astype(np.float64)
    tokens, parents = children.tokens[0], np.full(len(scores), ROOT)
    log_probs = [] if children.log_probs is None else [children.log_probs[0]]
    runs = np.zeros(0, np.int64)  # Of each candidate: in which order it was run.
    run, level = 0, 0
    for depth in range(1, pace.depth + 1):
        best = np.argsort(-scores, kind="stable")[: pace.nodes]
        best = best[np.isfinite(scores[best])]
        frontier = best[best >= level][: pace.breadth]
        level = len(scores)
        runs = np.concatenate((runs, np.full(level - len(runs), ROOT)))
        if depth == pace.depth or not frontier.size:
            break
        runs[frontier] = np.arange(run, run + frontier.size)
        above = parents[frontier]
        children = rank(expand(tokens[frontier], np.where(above == ROOT, ROOT, runs[above])), depth + 1)
        run += frontier.size
        tokens = np.concatenate((tokens, children.tokens.ravel()))
        parents = np.concatenate((parents, np.repeat(frontier, children.tokens.shape[1])))
        scores = np.concatenate((scores, (scores[frontier, None] + children.scores).ravel()))
        if children.log_probs is not None:
            log_probs.append(children.log_probs.ravel())
    chosen = np.sort(best)
    above = parents[chosen]
    tree = DraftTree(
        tokens[chosen],
        np.where(above == ROOT, ROOT, np.searchsorted(chosen, above)),
        np.concatenate(log_probs)[chosen] if log_probs else None,
        np.exp(scores[chosen]),
    )
    return Found(tree, runs[chosen])
