"""Drafting ahead while a round is in flight: which tokens the verdict may bring, and the drafts prepared for them.

An outcome is an accepted path of the draft in flight, and a bonus token that the draft does not have there. Its chance
is the chance of the path times that of the bonus token, both from the drafter's calibrated probabilities. No caches,
models, time or network.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drafter.search import Acceptance, Proposals
from drafter.second_stage import Chain
from drafter.step import Rows
from models.tree import ROOT, DraftTree

MOST_OUTCOMES = 16
"""Most outcomes that are considered in one round."""
LEAST_CHANCE = 0.01
"""Outcomes less likely than this are ignored: one hit is not worth a hundred drafts."""
MOST_LEAVES = 8
"""Most leaves that run in one call, to learn what follows them."""
UNRUN = -2
"""Stands for a place: the drafter has not run this node."""


class Halted(Exception):
    """The verdict has arrived, so drafting ahead stops."""


@dataclass(frozen=True)
class DraftedNodes:
    """Nodes whose rows are in the slabs after the last token, in the order in which they ran."""

    tokens: NDArray[np.int64]
    parents: NDArray[np.int64]
    sees: NDArray[np.bool_]
    """(n, n): each node sees itself and the nodes above it."""

    @classmethod
    def of(cls, tree: DraftTree) -> DraftedNodes:
        """A whole tree, as if it had run in the order of its nodes."""
        return cls(tree.tokens.astype(np.int64), tree.parents.astype(np.int64), tree.ancestors())

    def __len__(self) -> int:
        return len(self.tokens)

    def grown(self, tokens: NDArray[np.int64], parents: NDArray[np.int64]) -> DraftedNodes:
        """A copy with more nodes. A new node's parent may be another new node before it."""
        before, count = len(self), len(self) + len(tokens)
        sees = np.zeros((count + 1, count), bool)  # The last row stands for the root: index -1 sees no node.
        sees[:before, :before] = self.sees
        for node, parent in enumerate(parents.tolist(), before):
            sees[node] = sees[parent]
            sees[node, node] = True
        return DraftedNodes(np.append(self.tokens, tokens), np.append(self.parents, parents), sees[:-1])

    def follow(self, tokens: Sequence[int]) -> NDArray[np.int64]:
        """The path of nodes that spells the longest beginning of `tokens`."""
        path: list[int] = []
        for token in tokens:
            above = path[-1] if path else ROOT
            found = np.flatnonzero((self.parents == above) & (self.tokens == token))
            if not found.size:
                break
            path.append(int(found[0]))
        return np.array(path, np.int64)

    def places(self, tree: DraftTree) -> NDArray[np.int64]:
        """For each node of a tree, its place among these nodes, (n,), or `UNRUN`."""
        ranks = {key: rank for rank, key in enumerate(zip(self.parents.tolist(), self.tokens.tolist()))}
        places = np.full(len(tree) + 1, ROOT)  # The last entry stands for the root.
        for node, (parent, token) in enumerate(zip(tree.parents.tolist(), tree.tokens.tolist())):
            places[node] = ranks.get((int(places[parent]), token), UNRUN)
        return places[:-1]


NOTHING = DraftedNodes(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, 0), bool))


@dataclass(frozen=True, eq=False)
class Flight:
    """A draft whose verdict has not come yet."""

    tree: DraftTree
    proposed: list[Proposals]
    """Proposals after the root, then after each node that ran, in the order of the runs."""


@dataclass(frozen=True)
class Outcome:
    """Tokens that a verdict may add: those of the accepted nodes, then the bonus token."""

    tokens: tuple[int, ...]
    chance: float
    flight: Flight = field(repr=False)


@dataclass(frozen=True)
class Prepared:
    """A draft of what follows one outcome."""

    flight: Flight
    drafted: DraftedNodes
    rows: list[Rows]
    """For each layer: the rows of the outcome's tokens, then those of `drafted`."""
    chain: Chain
    taken: tuple[int, float] | None


def fresh_leaves(tree: DraftTree, drafted: DraftedNodes, final: Collection[int] = ()) -> NDArray[np.int64]:
    """The likeliest nodes that did not run although the answer may continue after them, at most `MOST_LEAVES`."""
    assert tree.acceptance is not None
    known = (drafted.places(tree) != UNRUN) | np.isin(tree.tokens, list(final)) | (tree.acceptance < LEAST_CHANCE)
    likeliest = np.argsort(np.where(known, np.inf, -tree.acceptance), kind="stable")
    return np.sort(likeliest[: min(MOST_LEAVES, int((~known).sum()))])


def outcomes(
    flight: Flight,
    drafted: DraftedNodes,
    acceptance: Acceptance | None = None,
    final: Collection[int] = (),
) -> list[Outcome]:
    """The possible outcomes of the verdict on a draft in flight, the likeliest first. Nothing follows a `final` token.

    Only draft nodes that ran have known continuations.
    """
    tree = flight.tree
    assert tree.acceptance is not None
    places = np.append(drafted.places(tree), ROOT)
    ends = np.flatnonzero(places != UNRUN)  # The last one is the root.
    log_probs, ids = (np.concatenate(parts) for parts in zip(*flight.proposed, strict=True))
    log_probs, ids = log_probs[1 + places[ends]], ids[1 + places[ends]]
    depths = 1 + np.append(tree.depths(), 0).astype(np.int64)[ends, None]
    scores: NDArray[Any] = np.minimum(log_probs, 0.0) if acceptance is None else acceptance(log_probs, depths, 1)
    excess = np.maximum(np.logaddexp.reduce(scores, axis=1, keepdims=True), 0.0)
    chances = np.append(tree.acceptance, 1.0)[ends, None] * np.exp(scores - excess)
    chances[np.isin(ids, list(final)) | np.isin(np.append(tree.tokens, -1)[ends], list(final))[:, None]] = 0.0
    rows = np.full(len(tree) + 1, -1)
    rows[ends] = np.arange(len(ends))
    for parent, token in zip(tree.parents.tolist(), tree.tokens.tolist()):
        if rows[parent] >= 0:
            chances[rows[parent], ids[rows[parent]] == token] = 0.0
    found = []
    for at in np.argsort(-chances, axis=None, kind="stable")[:MOST_OUTCOMES].tolist():
        end, choice = divmod(at, chances.shape[1])
        if chances[end, choice] < LEAST_CHANCE:
            break
        node = int(ends[end]) if ends[end] < len(tree) else ROOT
        path = [int(tree.tokens[above]) for above in tree.path(node)]
        found.append(Outcome((*path, int(ids[end, choice])), float(chances[end, choice]), flight))
    return found
