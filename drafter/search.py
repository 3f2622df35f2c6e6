"""Draft trees by expand and rerank, as in EAGLE-2 (arXiv 2406.16858), in array operations only.

The search runs level by level, with one drafter call for a whole frontier. Each node of the frontier proposes children.
All children become candidates, and the best of them become the next frontier. In the end, the candidates with the
highest scores form the tree. The tree always contains the ancestors of its nodes, because a child's score is never
above its parent's. Ties go to the earlier candidate, so the result is deterministic. No caches, no models.

A score is the log of the chance that the target accepts a node. `grow` takes the drafter's cumulative log-probability
for it, calibrated if there is experience. Other modules rank children in other ways.

A chain that the second stage guessed runs together with the first level, in the same call. Its nodes and their children
become candidates like any others. So a long copy reaches its full depth at once, and the search needs no call of its
own for nodes on the chain. A guess only adds candidates: by the drafter's own probabilities, the tree is never worth
less than without it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drafter.cost import Cost
from models.tree import ROOT, DraftTree

Proposals = tuple[NDArray[np.float32], NDArray[np.int64]]
"""The likeliest next tokens of M nodes, best first: log-probabilities (M, K) and token ids (M, K)."""

Expand = Callable[[NDArray[np.int64], NDArray[np.int64]], Proposals]
"""Runs M new nodes: their tokens (M,), and for each (M,) the place of its parent in the order of the runs, or
`ROOT`."""

OFF = -2
"""Stands for a position: this node is not on the guessed chain."""

Acceptance = Callable[[NDArray[np.floating], int | NDArray[np.int64], int | NDArray[np.int64]], NDArray[np.float64]]
"""(log-probabilities, depth, attempt) -> log of the chance that nodes are accepted if their parents are.

`depth` is 1 for children of the root. `attempt` counts the siblings that the target tries one after the other, if it
does; otherwise it is 1. Both broadcast.
"""


class Children(NamedTuple):
    """The children that M nodes propose, best first."""

    scores: NDArray[np.floating]
    """(M, B), falling and at most 0: log of the chance of a child once its parent is accepted; -inf: no child."""
    tokens: NDArray[np.int64]
    """(M, B)"""
    log_probs: NDArray[np.float32] | None
    """(M, B): the drafter's own log-probabilities, if they are meaningful here."""


Rank = Callable[[Proposals, int], Children]
"""Makes children from the proposals of M nodes at a depth. Called once a level, the root first."""


@dataclass(frozen=True)
class Pace:
    """The shape of the next tree. A breadth of 1 gives a chain."""

    depth: int = 8
    """Levels, so also drafter calls. The first call runs the root."""
    breadth: int = 8
    """Nodes that run in one call, and children that each of them proposes. A guessed chain is extra."""
    nodes: int = 60
    """Nodes of the tree that is sent."""
    deepest: int = 0
    """Longest chain that the second stage may guess; it may be longer than `depth`. With 0 there is no guess."""
    cost: Cost | None = None
    """With a cost, depth and nodes are only bounds: the tree within them is the one with the most expected tokens per
    second."""

    @property
    def empty(self) -> bool:
        return min(self.depth, self.breadth, self.nodes) < 1


class FoundTree(NamedTuple):
    """The tree of the best candidates, and the place of each node in the order of the drafter's runs."""

    tree: DraftTree
    runs: NDArray[np.int64]
    """(n,): `ROOT` for nodes that did not run."""


def grow(
    first: Proposals, expand: Expand, pace: Pace, acceptance: Acceptance | None = None, guess: Sequence[int] = ()
) -> DraftTree:
    """The tree of the likeliest candidates under a root whose proposals are `first`, each (1, K).

    `acceptance` turns log-probabilities into chances. Without it they are taken as they are.
    """

    def likeliest(proposals: Proposals, depth: int) -> Children:
        log_probs, tokens = np.minimum(proposals[0][:, : pace.breadth], 0.0), proposals[1][:, : pace.breadth]
        if acceptance is None:
            return Children(log_probs, tokens, log_probs)
        scores = acceptance(log_probs, depth, 1)
        # At most one of the siblings can be accepted.
        excess = np.maximum(np.logaddexp.reduce(scores, axis=1, keepdims=True), 0.0)
        return Children(scores - excess, tokens, log_probs)

    return DraftTree.empty() if pace.empty else best_first(first, expand, pace, likeliest, guess).tree


def best_first(first: Proposals, expand: Expand, pace: Pace, rank: Rank, guess: Sequence[int] = ()) -> FoundTree:
    """The tree of the candidates with the best scores. With a guess, `rank` must not count its calls.

    It stops early when no node of a level is among the best `pace.nodes` candidates so far: none of its descendants
    could be, so the tree does not change. With a cost, it also stops when one more level could not gain as many tokens
    per second as the tree so far, and leaves out nodes that are not worth verifying.
    """
    runner = _Runner(expand, np.array(guess, np.int64) if len(guess) and guess[0] in first[1] else _NO_TOKENS)
    pool = _Pool()
    pool.add(ROOT, rank(first, 1))
    runs = _NO_TOKENS  # For each candidate: its place in the order of the runs.
    run, level = 0, 0
    for depth in range(1, pace.depth + 1):
        best = pool.best(pace.nodes)
        frontier = best[best >= level][: pace.breadth]
        level = len(pool.tokens)
        runs = np.concatenate((runs, np.full(level - len(runs), ROOT)))
        if depth == pace.depth or not frontier.size:
            break
        if pace.cost is not None and not runner.waiting:
            rate = pace.cost.rates(np.exp(pool.scores[best]), runner.levels, runner.rows).max()
            known = runner.known(pool.tokens[frontier], _ranks(pool, frontier, runs))
            frontier = frontier[_worth(np.exp(pool.scores[frontier]), known, rate, pace.cost)]
            if not frontier.size:
                break
        runs[frontier] = np.arange(run, run + frontier.size)
        proposed = runner(pool.tokens[frontier], _ranks(pool, frontier, runs))
        run += frontier.size
        pool.add(frontier, rank(proposed, depth + 1))
    if runner.chain is not None:
        _graft(pool, first, runner.guess, runner.chain, max(pace.depth, pace.deepest), rank)
        best = pool.best(pace.nodes)
        runs = np.concatenate((runs, np.full(len(pool.tokens) - len(runs), ROOT)))
    if pace.cost is not None:
        best = best[: int(np.argmax(pace.cost.rates(np.exp(pool.scores[best]), runner.levels, runner.rows)))]
    chosen = np.sort(best)
    above = pool.parents[chosen]
    tree = DraftTree(
        pool.tokens[chosen],
        np.where(above == ROOT, ROOT, np.searchsorted(chosen, above)),
        None if pool.log_probs is None else pool.log_probs[chosen],
        np.exp(pool.scores[chosen]),
    )
    return FoundTree(tree, runs[chosen])


def _worth(chances: NDArray[np.float64], known: NDArray[np.bool_], rate: float, cost: Cost) -> NDArray[np.bool_]:
    """Which nodes of a frontier to run, (M,). The `known` ones are free. `rate`: tokens per second without any of them.

    A node that is not worth its own row and verification has no children that are. Of each other node, one child may be
    accepted.
    """
    new = ~known & (chances > rate * (cost.node + cost.row))
    first = np.flatnonzero(~known)[:1]  # Its row comes with the call.
    new[first] = chances[first] > rate * cost.node
    if chances[new].sum() <= rate * (cost.level - cost.row + new.sum() * (cost.node + cost.row)):
        return known
    return known | new


def _ranks(pool: _Pool, frontier: NDArray[np.int64], runs: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each of these candidates, the place of its parent in the order of the runs."""
    above = pool.parents[frontier]
    ranks: NDArray[np.int64] = np.where(above == ROOT, ROOT, runs[above])
    return ranks


class _Pool:
    """The candidates: tokens, parents, the drafter's log-probabilities if any, and scores of whole paths."""

    def __init__(self) -> None:
        self.tokens, self.parents = _NO_TOKENS, _NO_TOKENS
        self.log_probs: NDArray[np.float32] | None = np.zeros(0, np.float32)
        self.scores = np.zeros(0)

    def add(self, parents: int | NDArray[np.int64], children: Children) -> None:
        """Add the children of M parents, (M, B)."""
        above = np.broadcast_to(parents, len(children.tokens))
        known = np.append(self.scores, 0.0)[above]  # Index -1 is the root.
        self.tokens = np.concatenate((self.tokens, children.tokens.ravel()))
        self.parents = np.concatenate((self.parents, np.repeat(above, children.tokens.shape[1])))
        self.scores = np.concatenate((self.scores, (known[:, None] + children.scores).ravel()))
        if self.log_probs is None or children.log_probs is None:
            self.log_probs = None
        else:
            self.log_probs = np.concatenate((self.log_probs, children.log_probs.ravel()))

    def best(self, count: int) -> NDArray[np.int64]:
        """The candidates with the highest finite scores, in falling order."""
        best = np.argsort(-self.scores, kind="stable")[:count]
        return best[np.isfinite(self.scores[best])]

    def find(self, parent: int, token: int) -> int | None:
        """The child of a candidate that carries the token."""
        found = np.flatnonzero((self.parents == parent) & (self.tokens == token))
        return int(found[0]) if found.size else None


class _Runner:
    """Runs frontiers, and the guessed chain with the first of them. A node on the chain never runs twice."""

    def __init__(self, expand: Expand, guess: NDArray[np.int64]) -> None:
        self.guess = guess
        self.chain: Proposals | None = None
        """What follows each token of the guess. None before it has run."""
        self._expand = expand
        self._ends = np.append(guess, -1)  # No token follows the last one of the chain.
        self._ranks = _NO_TOKENS
        """For each requested node: its place in the order in which `expand` ran."""
        self._run = 0
        self._on = _NO_TOKENS
        """For each of them: its position in the chain, or `OFF`."""
        self.levels = 1
        """Drafter calls so far, including the one for the root."""
        self.rows = 0
        """Nodes after the first of each call."""

    @property
    def waiting(self) -> bool:
        """Whether there is a guess that has not run yet."""
        return bool(self.guess.size) and self.chain is None

    def known(self, tokens: NDArray[np.int64], parents: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of these nodes are on the chain, and so have run.

        `parents`: the parents' places in the order of the runs.
        """
        if self.chain is None:
            return np.zeros(len(tokens), bool)
        known: NDArray[np.bool_] = self._places(tokens, parents) != OFF
        return known

    def _places(self, tokens: NDArray[np.int64], parents: NDArray[np.int64]) -> NDArray[np.int64]:
        """The position of each of these nodes in the chain, or `OFF`."""
        # Index -1 is the root, whose position is before the first of the chain.
        above = np.append(self._on, ROOT)[parents]
        places: NDArray[np.int64] = np.where((above != OFF) & (tokens == self._ends[above + 1]), above + 1, OFF)
        return places

    def __call__(self, tokens: NDArray[np.int64], parents: NDArray[np.int64]) -> Proposals:
        on = self._places(tokens, parents)
        new, opening = on == OFF, self._run == 0
        chain = self.guess if opening else _NO_TOKENS
        count = len(chain) + int(new.sum())
        ranks = np.where(new, self._run + len(chain) + np.cumsum(new) - 1, on)
        above_ranks = np.append(self._ranks, ROOT)[parents]
        if count:
            below = np.arange(-1, len(chain) - 1)
            log_probs, ids = self._expand(np.append(chain, tokens[new]), np.append(below, above_ranks[new]))
            self.levels, self.rows = self.levels + 1, self.rows + count - 1
            if len(chain):
                self.chain = log_probs[: len(chain)], ids[: len(chain)]
            fresh = log_probs[len(chain) :], ids[len(chain) :]
        self._run, self._ranks, self._on = self._run + count, np.append(self._ranks, ranks), np.append(self._on, on)
        if new.all():
            return fresh
        assert self.chain is not None
        place = np.maximum(on, 0)
        log_probs, ids = self.chain[0][place], self.chain[1][place]
        if new.any():
            log_probs[new], ids[new] = fresh
        return log_probs, ids


def _graft(pool: _Pool, first: Proposals, guess: NDArray[np.int64], chain: Proposals, deepest: int, rank: Rank) -> None:
    """Add the nodes of a guessed chain, and their children, to the candidates that the search has found.

    Only tokens that the drafter proposed are added, because the others have no known probability.
    """
    at, above = ROOT, first
    for depth, token in enumerate(guess.tolist(), 1):
        proposed = np.flatnonzero(above[1][0] == token)
        if depth > deepest or not proposed.size:
            break
        if (node := pool.find(at, token)) is None:
            node = len(pool.tokens)
            pool.add(np.array([at]), rank((above[0][:, proposed], above[1][:, proposed]), depth))
        at, above = node, (chain[0][depth - 1 : depth], chain[1][depth - 1 : depth])
        if depth < deepest and not (pool.parents == at).any():
            pool.add(np.array([at]), rank(above, depth + 1))


_NO_TOKENS = np.zeros(0, np.int64)
