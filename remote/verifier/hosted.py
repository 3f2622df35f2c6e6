"""The verifier's own drafts, in hosted mode: the drafter that its memory is for, run where the target is.

What the drafter remembers of the target it gets as a device would, so that both draft alike. On the engine's thread.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from drafter.calibration import Calibration
from drafter.cost import CostMeter
from drafter.memory import unpack_memory
from drafter.runtime import Drafter
from drafter.search import Pace
from drafter.tree import DraftTree
from remote.verifier.engine import Engine, UnfitDrafter

BOUNDS = Pace(depth=32, breadth=8, nodes=128)
"""Of its trees, which are as large as pays."""
LONGEST_READ = 256
"""Tokens of a prompt up to which the time of its forward tells of others."""


class OwnDrafter:
    """A drafter, and what all sessions teach of it: what its calls cost, and how far its word can be trusted."""

    def __init__(self, drafter: Drafter, engine: Engine) -> None:
        """Raises `UnfitDrafter`."""
        if drafter.config.vocabulary != engine.vocabulary:
            sizes = f"{drafter.config.vocabulary} tokens, the target has {engine.vocabulary}"
            raise UnfitDrafter(f"The drafter knows {sizes}. Serve its own target, or leave the drafter out.")
        self.drafter = drafter
        self.costs = CostMeter()
        self.calibrations = {greedy: Calibration() for greedy in (True, False)}

    def drafts(self) -> OwnDrafts:
        """For one session."""
        return OwnDrafts(self)


class OwnDrafts:
    """One session's. Its tokens may lag behind the session's: `follow` first."""

    def __init__(self, own: OwnDrafter) -> None:
        self._own = own
        self._context = own.drafter.context()
        self._asked = 0.0

    @property
    def remembered(self) -> int:
        """Tokens from the first on whose memory it has."""
        return self._context.memory_length

    def follow(self, tokens: Sequence[int]) -> None:
        """Have these tokens."""
        self._context.follow(tokens)

    def nbytes(self, rows: int = 0) -> int:
        """Bytes that it has allocated, or would have with so many tokens and nodes."""
        return self._context.nbytes(rows)

    def read(self) -> bool:
        """Run one chunk of what was followed, where there is more than one to run; whether it did."""
        return self._context.read_chunk()

    def draft(self, greedy: bool) -> DraftTree:
        """What may come next, where the target is greedy or is not. Runs what was followed since the last draft."""
        calibration = self._own.calibrations[greedy]
        tree = self._context.draft(replace(BOUNDS, cost=self._own.costs.cost), None, calibration)
        if self._context.taken is not None:
            self._own.costs.drafted(*self._context.taken)
        self._asked = time.monotonic()
        return tree

    def judged(self, tree: DraftTree, accepted: Sequence[int], bonus: int | None, greedy: bool, pending: int) -> None:
        """The verdict on the last draft is there; the forward ran `pending` committed tokens beside the tree."""
        self._own.calibrations[greedy].learn(tree, accepted, bonus)
        if pending <= LONGEST_READ:
            self._own.costs.judged(pending - 1 + len(tree), time.monotonic() - self._asked)

    def remember(self, start: int, count: int, data: bytes) -> None:
        """Take the target's memory of `count` tokens from `start` on, as it goes over the wire."""
        self._context.remember(start, unpack_memory(data, count, self._own.drafter.memory_layers))
