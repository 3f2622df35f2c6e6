"""Draft trees by expand and rerank, as EAGLE-2 does (arXiv 2406.16858), in array operations only.

Level by level, one drafter call for the whole frontier: every node of the frontier proposes its likeliest children,
all of them are kept as candidates, and the best become the next frontier. In the end the candidates with the highest
cumulative log-probability form the tree. Such a choice always holds its own ancestors, because a child's score is
never above its parent's. Deterministic: ties go to the earlier candidate. Knows nothing of caches or models.

A chain that the second stage guessed runs beside the first level, all of it in that one call, and its nodes and their
children become candidates like any others. So a long copy reaches its depth at once, and where the search comes along
it needs no call of its own. The candidates only become more: by the drafter's own probabilities the tree is never
worth less than without a guess.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drafter.tree import ROOT, DraftTree

Proposals = tuple[NDArray[np.float32], NDArray[np.int64]]
"""For M nodes the likeliest next tokens, best first: log-probabilities (M, K) and token ids (M, K)."""

Expand = Callable[[NDArray[np.int64], NDArray[np.int64]], Proposals]
"""Runs M new nodes: their tokens (M,), and as parents (M,) the rank in which the parent was run, or `ROOT`."""

OFF = -2
"""In place of a position in the guessed chain: this node is not on it."""


@dataclass(frozen=True)
class Pace:
    """The shape of the next tree. A breadth of 1 makes a chain."""

    depth: int = 8
    """Levels, and drafter calls: the first call runs the root."""
    breadth: int = 8
    """Nodes run in one call, and children that each of them proposes; a guessed chain comes on top."""
    nodes: int = 60
    """Size of the tree that goes up."""
    deepest: int = 0
    """How deep a chain that the second stage guesses may go, beyond `depth` or not. 0: nothing is guessed."""


def grow(first: Proposals, expand: Expand, pace: Pace, guess: Sequence[int] = ()) -> DraftTree:
    """The tree of the best candidates under a root whose proposals are `first`, each (1, K).

    Stops early where no node of a level is among the best `pace.nodes` candidates so far: none of its descendants
    could be, so the tree is the same as without the stop.
    """
    if min(pace.depth, pace.breadth, pace.nodes) < 1:
        return DraftTree.empty()
    runner = _Runner(expand, np.array(guess, np.int64) if len(guess) and guess[0] in first[1] else _NO_TOKENS)
    pool = _Pool(pace.breadth)
    pool.add(ROOT, *first)
    ranks = np.zeros(0, np.int64)  # Of each candidate: in which order it was run.
    run, level = 0, 0
    for depth in range(1, pace.depth + 1):
        best = pool.best(pace.nodes)
        frontier = best[best >= level][: pace.breadth]
        if depth == pace.depth or not frontier.size:
            break
        level = len(pool.tokens)
        ranks = np.concatenate((ranks, np.full(level - len(ranks), ROOT)))
        ranks[frontier] = np.arange(run, run + frontier.size)
        above = pool.parents[frontier]
        proposed = runner(pool.tokens[frontier], np.where(above == ROOT, ROOT, ranks[above]))
        run += frontier.size
        pool.add(frontier, *proposed)
    if runner.chain is not None:
        _graft(pool, first, runner.guess, runner.chain, max(pace.depth, pace.deepest))
        best = pool.best(pace.nodes)
    chosen = np.sort(best)
    above = pool.parents[chosen]
    parents = np.where(above == ROOT, ROOT, np.searchsorted(chosen, above))
    return DraftTree(pool.tokens[chosen], parents, pool.log_probs[chosen])


class _Pool:
    """Candidates: tokens, parents, log-probabilities given the parent, and scores, which are those of whole paths."""

    def __init__(self, breadth: int) -> None:
        self.tokens, self.parents = _NO_TOKENS, _NO_TOKENS
        self.log_probs, self.scores = np.zeros(0, np.float32), np.zeros(0)
        self._breadth = breadth

    def add(self, parents: int | NDArray[np.int64], log_probs: NDArray[np.float32], tokens: NDArray[np.int64]) -> None:
        """The likeliest children of M parents, of which (M, K) are given, best first."""
        log_probs, tokens = np.minimum(log_probs[:, : self._breadth], 0.0), tokens[:, : self._breadth]
        above = np.broadcast_to(parents, len(tokens))
        known = np.where(above == ROOT, 0.0, self.scores[above]) if len(self.scores) else np.zeros(len(above))
        self.tokens = np.concatenate((self.tokens, tokens.ravel()))
        self.parents = np.concatenate((self.parents, np.repeat(above, tokens.shape[1])))
        self.log_probs = np.concatenate((self.log_probs, log_probs.ravel()))
        self.scores = np.concatenate((self.scores, (known[:, None] + log_probs).ravel()))

    def best(self, count: int) -> NDArray[np.int64]:
        """The candidates with the highest scores, in falling order."""
        return np.argsort(-self.scores, kind="stable")[:count]

    def find(self, parent: int, token: int) -> int | None:
        """The child of a candidate that carries the token."""
        found = np.flatnonzero((self.parents == parent) & (self.tokens == token))
        return int(found[0]) if found.size else None


class _Runner:
    """Runs frontiers, and with the first of them the guessed chain; a node on the chain is never run twice."""

    def __init__(self, expand: Expand, guess: NDArray[np.int64]) -> None:
        self.guess = guess
        self.chain: Proposals | None = None
        """What follows each token of the guess; None before it has run."""
        self._expand = expand
        self._ends = np.append(guess, -1)  # No token follows the chain's last one.
        self._ranks = _NO_TOKENS
        """In which order `expand` ran each node that was asked for."""
        self._run = 0
        self._on = _NO_TOKENS
        """Where in the chain each of them stands, or `OFF`."""

    def __call__(self, tokens: NDArray[np.int64], parents: NDArray[np.int64]) -> Proposals:
        above = np.append(self._on, ROOT)[parents]  # Index -1 is the root, and its place is before the chain's first.
        on = np.where((above != OFF) & (tokens == self._ends[above + 1]), above + 1, OFF)
        new, opening = on == OFF, self._run == 0
        chain = self.guess if opening else _NO_TOKENS
        count = len(chain) + int(new.sum())
        ranks = np.where(new, self._run + len(chain) + np.cumsum(new) - 1, on)
        above_ranks = np.append(self._ranks, ROOT)[parents]
        if count:
            below = np.arange(-1, len(chain) - 1)
            log_probs, ids = self._expand(np.append(chain, tokens[new]), np.append(below, above_ranks[new]))
            if len(chain):
                self.chain = log_probs[: len(chain)], ids[: len(chain)]
            fresh = log_probs[len(chain) :], ids[len(chain) :]
        self._run, self._ranks, self._on = self._run + count, np.append(self._ranks, ranks), np.append(self._on, on)
        if new.all():
            return fresh
        assert self.chain is not None
        log_probs, ids = self.chain[0][np.maximum(on, 0)], self.chain[1][np.maximum(on, 0)]
        if new.any():
            log_probs[new], ids[new] = fresh
        return log_probs, ids


def _graft(pool: _Pool, first: Proposals, guess: NDArray[np.int64], chain: Proposals, deepest: int) -> None:
    """Add the nodes of a guessed chain, and their children, to the candidates that the search has found.

    The drafter must have proposed each of the chain's tokens: the others have no known probability.
    """
    at, above = ROOT, first
    for depth, token in enumerate(guess.tolist(), 1):
        proposed = np.flatnonzero(above[1][0] == token)
        if depth > deepest or not proposed.size:
            break
        if (node := pool.find(at, token)) is None:
            node = len(pool.tokens)
            pool.add(np.array([at]), above[0][:, proposed], above[1][:, proposed])
        at, above = node, (chain[0][depth - 1 : depth], chain[1][depth - 1 : depth])
        if depth < deepest and not (pool.parents == at).any():
            pool.add(np.array([at]), *above)


_NO_TOKENS = np.zeros(0, np.int64)
