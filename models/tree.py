"""The draft tree: candidate continuations, as both sides of the wire see them.

A node's parent has a smaller index, and `-1` is the root: the last committed token. So a simple loop over the nodes
visits parents before children. Token ids and integers only; no text, no models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

ROOT = -1
NEVER = np.float32(-1e9)
"""Additive mask of a row that a token must not see."""
MAX_WEIGHT = (1 << 16) - 1
"""Largest weight of a candidate."""


class MalformedTree(ValueError):
    """The tokens and parents do not form a tree. The message says where."""


@dataclass(frozen=True, eq=False)
class Candidates:
    """The distribution that the children of one node were drawn from: `tokens[i]` has `weights[i] / sum(weights)`.

    `tokens` (K,) int32, all different; `weights` (K,) int64 from 1 to `MAX_WEIGHT`. Weights are whole numbers, so that
    both sides of the wire hold exactly the same distribution. Raises `MalformedTree`.
    """

    tokens: np.ndarray
    weights: np.ndarray

    def __post_init__(self) -> None:
        object.__setattr__(self, "tokens", np.asarray(self.tokens, np.int32))
        object.__setattr__(self, "weights", np.asarray(self.weights, np.int64))
        if self.tokens.ndim != 1 or self.tokens.shape != self.weights.shape:
            raise MalformedTree(f"{self.tokens.shape} candidates, but {self.weights.shape} weights")
        if len(self) and not 1 <= self.weights.min() <= self.weights.max() <= MAX_WEIGHT:
            raise MalformedTree(f"a candidate's weight is not between 1 and {MAX_WEIGHT}")
        if len(self) and self.tokens.min() < 0:
            raise MalformedTree(f"negative candidate {int(self.tokens.min())}")
        if len(np.unique(self.tokens)) != len(self):
            raise MalformedTree("a candidate is listed twice")

    def __len__(self) -> int:
        return len(self.tokens)

    def places(self, tokens: Sequence[int] | np.ndarray) -> np.ndarray:
        """The place of each of `tokens` in the list. Raises `MalformedTree` for one that is not listed."""
        found = np.asarray(tokens)[:, None] == self.tokens
        if not found.any(axis=1).all():
            raise MalformedTree("a child is not among the candidates it was drawn from")
        places: np.ndarray = found.argmax(axis=1)
        return places


@dataclass(frozen=True, eq=False)
class DraftTree:
    """Candidate tokens and, for each, the index of its parent.

    `tokens` (n,) int32, `parents` (n,) int32 with `-1 <= parents[i] < i`. Siblings carry different tokens. `log_probs`
    (n,) float32, if known: the drafter's log-probability of each node given its parent. `acceptance` (n,) float64, if
    known: the drafter's chance that each node is accepted. `candidates`, in a sampled tree: for each node with
    children, and for `ROOT`, the distribution that they were drawn from without replacement, in the order of their
    indices. A deterministic tree has none. Raises `MalformedTree`.
    """

    tokens: np.ndarray
    parents: np.ndarray
    log_probs: np.ndarray | None = None
    acceptance: np.ndarray | None = None
    candidates: Mapping[int, Candidates] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "tokens", np.asarray(self.tokens, np.int32))
        object.__setattr__(self, "parents", np.asarray(self.parents, np.int32))
        if self.tokens.ndim != 1 or self.tokens.shape != self.parents.shape:
            raise MalformedTree(f"{self.tokens.shape} tokens, but {self.parents.shape} parents")
        for name, values in (("log-probabilities", self.log_probs), ("acceptance probabilities", self.acceptance)):
            if values is not None and np.shape(values) != self.tokens.shape:
                raise MalformedTree(f"{self.tokens.shape} tokens, but {np.shape(values)} {name}")
        wrong = np.flatnonzero((self.parents < ROOT) | (self.parents >= np.arange(len(self))))
        if wrong.size:
            raise MalformedTree(
                f"node {wrong[0]} has parent {self.parents[wrong[0]]}; a parent is -1 or a smaller index"
            )
        if len(self) and self.tokens.min() < 0:
            raise MalformedTree(f"node {int(self.tokens.argmin())} has the negative token {int(self.tokens.min())}")
        if len(set(zip(self.parents.tolist(), self.tokens.tolist()))) != len(self):
            raise MalformedTree("two siblings carry the same token")
        if self.candidates is not None:
            self._check_candidates(self.candidates)

    def _check_candidates(self, candidates: Mapping[int, Candidates]) -> None:
        children = self.children()
        if children.keys() != candidates.keys():
            raise MalformedTree(f"{len(children)} nodes have children, but {len(candidates)} lists of candidates came")
        for parent, below in children.items():
            candidates[parent].places(list(below))

    def __len__(self) -> int:
        return len(self.tokens)

    @classmethod
    @cache
    def empty(cls) -> DraftTree:
        """A tree without candidates. A round with it yields one token, as plain decoding does."""
        return cls(np.zeros(0, np.int32), np.zeros(0, np.int32), acceptance=np.zeros(0))

    @classmethod
    def chain(cls, tokens: Sequence[int] | np.ndarray) -> DraftTree:
        """A tree with one candidate after another."""
        return cls(np.asarray(tokens, np.int32), np.arange(-1, len(tokens) - 1, dtype=np.int32))

    @property
    def expected_tau(self) -> float | None:
        """Expected tokens of a round with this tree, bonus included, or None if there is no estimate."""
        return None if self.acceptance is None else 1.0 + float(np.sum(self.acceptance))

    def depths(self) -> np.ndarray:
        """The depth of each node, (n,) int32; 1 for children of the root."""
        depths = np.zeros(len(self) + 1, np.int32)  # The last entry stands for the root, so parent -1 reads 0.
        for node, parent in enumerate(self.parents.tolist()):
            depths[node] = depths[parent] + 1
        return depths[:-1]

    def ancestors(self) -> np.ndarray:
        """The attention mask, (n, n) bool: `[i, j]` is true if `j` is `i` or one of its ancestors."""
        mask = np.eye(len(self), dtype=bool)
        for node, parent in enumerate(self.parents):
            if parent != ROOT:
                mask[node] |= mask[parent]
        return mask

    def children(self) -> dict[int, dict[int, int]]:
        """For each node with children, and for `ROOT`: token -> index of the child, in the order of the indices."""
        table: dict[int, dict[int, int]] = {}
        for node, (parent, token) in enumerate(zip(self.parents.tolist(), self.tokens.tolist())):
            table.setdefault(parent, {})[token] = node
        return table

    def path(self, node: int) -> list[int]:
        """Node indices from the root's child down to `node`; empty for `ROOT`."""
        nodes = []
        while node != ROOT:
            nodes.append(node)
            node = int(self.parents[node])
        return nodes[::-1]

    def rejected(self, accepted: Sequence[int], most: int) -> list[int]:
        """The first `most` nodes that were not accepted though their parent is the root or was, by rising index."""
        reached = {ROOT, *accepted}
        parents = enumerate(self.parents.tolist())
        return [node for node, parent in parents if parent in reached and node not in reached][:most]

    def likeliest_path(self) -> list[int]:
        """The greedy walk: at each level the child with the highest log-probability, or the first one if these are
        unknown.

        In a sampled tree, the first child is the one that is tried first.
        """
        table, nodes, at = self.children(), [], ROOT
        while at in table:
            options = list(table[at].values())
            at = options[0] if self.log_probs is None else max(options, key=lambda node: float(self.log_probs[node]))  # type: ignore[index]
            nodes.append(at)
        return nodes
