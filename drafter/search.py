"""Draft trees by expand and rerank, as EAGLE-2 does (arXiv 2406.16858), in array operations only.

Level by level, one drafter call for the whole frontier: every node of the frontier proposes children, all of them are
kept as candidates, and the best become the next frontier. In the end the candidates with the highest scores form the
tree. Such a choice always holds its own ancestors, because a child's score is never above its parent's.
Deterministic: ties go to the earlier candidate. Knows nothing of caches or models.

A score is the log of how probable it is that the target accepts the node. `grow` takes the drafter's cumulative
log-probability for it, calibrated where experience is at hand; other modules rank children in other ways.

A chain that the second stage guessed runs beside the first level, all of it in that one call, and its nodes and their
children become candidates like any others. So a long copy reaches its depth at once, and where the search comes along
it needs no call of its own. The candidates only become more: by the drafter's own probabilities the tree is never
worth less than without a guess.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drafter.cost import Cost
from drafter.tree import ROOT, DraftTree

Proposals = tuple[NDArray[np.float32], NDArray[np.int64]]
"""For M nodes the likeliest next tokens, best first: log-probabilities (M, K) and token ids (M, K)."""

Expand = Callable[[NDArray[np.int64], NDArray[np.int64]], Proposals]
"""Runs M new nodes: their tokens (M,), and as parents (M,) the rank in which the parent was run, or `ROOT`."""

OFF = -2
"""In place of a position in the guessed chain: this node is not on it."""

Acceptance = Callable[[NDArray[np.floating], int | NDArray[np.int64], int | NDArray[np.int64]], NDArray[np.float64]]
"""(log-probabilities, depth, attempt) -> log of how probable it is that nodes are accepted, their parents being.

`depth` is 1 for children of the root. `attempt`: the how-manieth of its siblings a node is that the target tries one
after the other, earlier ones being refused; always 1 where it does not try them so. Both broadcast."""


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
    """Nodes run in one call, and children that each of them proposes; a guessed chain comes on top."""
    nodes: int = 60
    """Size of the tree that goes up."""
    deepest: int = 0
    """How deep a chain that the second stage guesses may go, beyond `depth` or not. 0: nothing is guessed."""
    cost: Cost | None = None
    """With it depth and nodes are bounds, within which the tree is the one that is expected to gain most a second."""

    @property
    def empty(self) -> bool:
        return min(self.depth, self.breadth, self.nodes) < 1


class Found(NamedTuple):
    """The tree of the best candidates, and where each node stands in the order of the drafter's runs."""

    tree: DraftTree
    runs: NDArray[np.int64]
    """(n,): `ROOT` for nodes that were not run."""


def grow(
    first: Proposals, expand: Expand, pace: Pace, acceptance: Acceptance | None = None, guess: Sequence[int] = ()
) -> DraftTree:
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

    return DraftTree.empty() if pace.empty else best_first(first, expand, pace, likeliest, guess).tree


def best_first(first: Proposals, expand: Expand, pace: Pace, rank: Rank, guess: Sequence[int] = ()) -> Found:
    """The tree of the candidates with the best scores. With a guess, `rank` must not count its calls.

    Stops early where no node of a level is among the best `pace.nodes` candidates so far: none of its descendants
    could be, so the tree is the same as without the stop. With a cost it also stops where a further level could not
    gain as many tokens a second as the tree so far does, and leaves out nodes that are not worth their verifying.
    """
    runner = _Runner(expand, np.array(guess, np.int64) if len(guess) and guess[0] in first[1] else _NO_TOKENS)
    pool = _Pool()
    pool.add(ROOT, rank(first, 1))
    runs = _NO_TOKENS  # Of each candidate: in which order it was run.
    run, level = 0, 0
    for depth in range(1, pace.depth + 1):
        best = pool.best(pace.nodes)
        frontier = best[best >= level][: pace.breadth]
        level = len(pool.tokens)
        runs = np.concatenate((runs, np.full(level - len(runs), ROOT)))
        if depth == pace.depth or not frontier.size:
            break
        if pace.cost is not None and not runner.waiting:
            rate = pace.cost.rates(np.exp(pool.scores[best]), runner.levels).max()
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
        best = best[: int(np.argmax(pace.cost.rates(np.exp(pool.scores[best]), runner.levels)))]
    chosen = np.sort(best)
    above = pool.parents[chosen]
    tree = DraftTree(
        pool.tokens[chosen],
        np.where(above == ROOT, ROOT, np.searchsorted(chosen, above)),
        None if pool.log_probs is None else pool.log_probs[chosen],
        np.exp(pool.scores[chosen]),
    )
    return Found(tree, runs[chosen])


def _worth(chances: NDArray[np.float64], known: NDArray[np.bool_], rate: float, cost: Cost) -> NDArray[np.bool_]:
    """Which nodes of a frontier to run, (M,). The `known` ones are free; `rate`: tokens a second without any of them.

    What is not worth its own verifying has no children that are; of each other node one child may come.
    """
    new = ~known & (chances > rate * cost.node)
    if chances[new].sum() <= rate * (cost.level + new.sum() * cost.node):
        return known
    return known | new


def _ranks(pool: _Pool, frontier: NDArray[np.int64], runs: NDArray[np.int64]) -> NDArray[np.int64]:
    """In which order the parents of these candidates were run."""
    above = pool.parents[frontier]
    ranks: NDArray[np.int64] = np.where(above == ROOT, ROOT, runs[above])
    return ranks


class _Pool:
    """Candidates: tokens, parents, the drafter's log-probabilities if any, and scores, those of whole paths."""

    def __init__(self) -> None:
        self.tokens, self.parents = _NO_TOKENS, _NO_TOKENS
        self.log_probs: NDArray[np.float32] | None = np.zeros(0, np.float32)
        self.scores = np.zeros(0)

    def add(self, parents: int | NDArray[np.int64], children: Children) -> None:
        """Children of M parents, (M, B)."""
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
        """The candidates with the highest scores, in falling order, without those that are none."""
        best = np.argsort(-self.scores, kind="stable")[:count]
        return best[np.isfinite(self.scores[best])]

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
        self.levels = 1
        """Drafter calls so far, that of the root too."""

    @property
    def waiting(self) -> bool:
        """There is a guess, and it has not run yet."""
        return bool(self.guess.size) and self.chain is None

    def known(self, tokens: NDArray[np.int64], parents: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of these nodes, whose parents have these ranks, are on the chain, and so have run."""
        if self.chain is None:
            return np.zeros(len(tokens), bool)
        known: NDArray[np.bool_] = self._places(tokens, parents) != OFF
        return known

    def _places(self, tokens: NDArray[np.int64], parents: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where in the chain each of these nodes stands, or `OFF`."""
        above = np.append(self._on, ROOT)[parents]  # Index -1 is the root, and its place is before the chain's first.
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
            self.levels += 1
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

    The drafter must have proposed each of the chain's tokens: the others have no known probability.
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
