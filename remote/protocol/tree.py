"""A draft tree on the wire."""

from __future__ import annotations

import numpy as np

from models.tree import Candidates, DraftTree, MalformedTree
from remote.protocol.card import Limits
from remote.protocol.fields import MAX_CANDIDATES, MAX_NODES, ProtocolError, Struct


class Tree(Struct, frozen=True):
    """A draft tree: int32 tokens and int16 parents. A sampled tree also has the lists that its children were drawn
    from.

    `counts` has a uint16 for the root and for each node with children, by rising index: the number of candidates in its
    list. `candidates` (int32 tokens) and `weights` (uint16, from 1 on) hold these lists one after the other. A verifier
    that does not know these fields takes the tree for a deterministic one; its output is just as exact.
    """

    tokens: bytes
    parents: bytes
    counts: bytes = b""
    candidates: bytes = b""
    weights: bytes = b""

    @classmethod
    def pack(cls, tree: DraftTree) -> Tree:
        """Raises `ProtocolError` for a tree whose parents or lists do not fit."""
        if len(tree) > MAX_NODES:
            raise ProtocolError(f"tree of {len(tree)} nodes; at most {MAX_NODES} can be sent")
        tokens, parents = tree.tokens.astype("<i4").tobytes(), tree.parents.astype("<i2").tobytes()
        if not tree.candidates:
            return cls(tokens=tokens, parents=parents)
        lists = [candidates for _, candidates in sorted(tree.candidates.items())]
        if max(map(len, lists)) > MAX_CANDIDATES:
            raise ProtocolError(f"a list of {max(map(len, lists))} candidates; at most {MAX_CANDIDATES} can be sent")
        return cls(
            tokens=tokens,
            parents=parents,
            counts=np.array([len(one) for one in lists], "<u2").tobytes(),
            candidates=np.concatenate([one.tokens for one in lists]).astype("<i4").tobytes(),
            weights=np.concatenate([one.weights for one in lists]).astype("<u2").tobytes(),
        )

    def unpack(self, limits: Limits) -> DraftTree:
        """Raises `ProtocolError` for anything that is not a tree within the limits."""
        nodes = len(self.tokens) // 4
        if len(self.tokens) % 4 or len(self.parents) != 2 * nodes:
            raise ProtocolError(f"tree of {len(self.tokens)} token bytes and {len(self.parents)} parent bytes")
        if nodes > limits.max_nodes:
            raise ProtocolError(f"tree of {nodes} nodes; this server takes {limits.max_nodes}")
        tokens, parents = np.frombuffer(self.tokens, "<i4"), np.frombuffer(self.parents, "<i2")
        try:
            tree = DraftTree(tokens, parents, candidates=self._candidates(parents))
        except MalformedTree as error:
            raise ProtocolError(f"malformed tree: {error}") from None
        if nodes and int(tree.depths().max()) > limits.max_depth:
            raise ProtocolError(f"tree of depth {int(tree.depths().max())}; this server takes {limits.max_depth}")
        return tree

    def _candidates(self, parents: np.ndarray) -> dict[int, Candidates] | None:
        """The lists, by the node whose children were drawn from them. Raises `ProtocolError`, `MalformedTree`."""
        if not (self.counts or self.candidates or self.weights):
            return None
        listed = np.unique(parents).tolist()
        if len(self.counts) != 2 * len(listed):
            raise ProtocolError(f"{len(self.counts)} bytes of counts; {len(listed)} nodes of the tree have children")
        counts = np.frombuffer(self.counts, "<u2").astype(int)
        if listed and int(counts.max()) > MAX_CANDIDATES:
            raise ProtocolError(f"a list of {int(counts.max())} candidates; at most {MAX_CANDIDATES} are read")
        total = int(counts.sum())
        if len(self.candidates) != 4 * total or len(self.weights) != 2 * total:
            found = f"{len(self.candidates)} bytes of candidates and {len(self.weights)} of weights"
            raise ProtocolError(f"{total} candidates are announced, but {found} came")
        ends = np.cumsum(counts)[:-1]
        tokens = np.split(np.frombuffer(self.candidates, "<i4"), ends)
        weights = np.split(np.frombuffer(self.weights, "<u2"), ends)
        return {parent: Candidates(*one) for parent, *one in zip(listed, tokens, weights)}
