"""Draft trees by expand and rerank, as EAGLE-2 does (arXiv 2406.16858), in array operations only.

Level by level, one drafter call for the whole frontier: every node of the frontier proposes its likeliest children,
all of them are kept as candidates, and the best become the next frontier. In the end the candidates with the highest
cumulative log-probability form the tree. Such a choice always holds its own ancestors, because a child's score is
never above its parent's. Deterministic: ties go to the earlier candidate. Knows nothing of caches or models.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drafter.tree import ROOT, DraftTree

Proposals = tuple[NDArray[np.float32], NDArray[np.int64]]
"""For M nodes the likeliest next tokens, best first: log-probabilities (M, K) and token ids (M, K)."""

Expand = Callable[[NDArray[np.int64], NDArray[np.int64]], Proposals]
"""Runs M new nodes: their tokens (M,), and as parents (M,) the rank in which the parent was run, or `ROOT`."""


@dataclass(frozen=True)
class Pace:
    """The shape of the next tree. A breadth of 1 makes a chain."""

    depth: int = 8
    """Levels, and drafter calls: the first call runs the root."""
    breadth: int = 8
    """Nodes run in one call, and children that each of them proposes."""
    nodes: int = 60
    """Size of the tree that goes up."""


def grow(first: Proposals, expand: Expand, pace: Pace) -> DraftTree:
    """The tree of the best candidates under a root whose proposals are `first`, each (1, K).

    Stops early where no node of a level is among the best `pace.nodes` candidates so far: none of its descendants
    could be, so the tree is the same as without the stop.
    """
    if min(pace.depth, pace.breadth, pace.nodes) < 1:
        return DraftTree.empty()
    tokens, parents = first[1][0, : pace.breadth], np.full(first[1][0, : pace.breadth].shape, ROOT)
    log_probs = np.minimum(first[0][0, : pace.breadth], 0.0)
    scores = log_probs.astype(np.float64)
    ranks = np.zeros(0, np.int64)  # Of each candidate: in which order it was run.
    run, level = 0, 0
    for depth in range(1, pace.depth + 1):
        best = np.argsort(-scores, kind="stable")[: pace.nodes]
        frontier = best[best >= level][: pace.breadth]
        if depth == pace.depth or not frontier.size:
            break
        level = len(scores)
        ranks = np.concatenate((ranks, np.full(level - len(ranks), ROOT)))
        ranks[frontier] = np.arange(run, run + frontier.size)
        above = parents[frontier]
        proposed, ids = expand(tokens[frontier], np.where(above == ROOT, ROOT, ranks[above]))
        run += frontier.size
        proposed, ids = np.minimum(proposed[:, : pace.breadth], 0.0), ids[:, : pace.breadth]
        tokens = np.concatenate((tokens, ids.ravel()))
        parents = np.concatenate((parents, np.repeat(frontier, ids.shape[1])))
        log_probs = np.concatenate((log_probs, proposed.ravel()))
        scores = np.concatenate((scores, (scores[frontier, None] + proposed).ravel()))
    chosen = np.sort(best)
    above = parents[chosen]
    return DraftTree(tokens[chosen], np.where(above == ROOT, ROOT, np.searchsorted(chosen, above)), log_probs[chosen])
