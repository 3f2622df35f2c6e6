"""The verifier's own drafts in hosted mode, made by the drafter that its memory is for.

This drafter gets the target's memory as a device would, so both draft in the same way. It runs on the engine's thread,
for one session after another. There are also drafts without drafter calls (`lookups.py`). `stream_payoff.py` decides
which of the two is made, if any, so a stream is never much slower than without drafts.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from drafter.calibration import Calibration
from drafter.coin import Coins
from drafter.runtime import Drafter
from drafter.search import Pace
from models.engines.engine import Engine, UnfitDrafter
from models.memory import unpack_memory
from models.tree import DraftTree
from remote.protocol import Sampling
from remote.verifier.drafting.lookups import Lookups, OwnLookups
from remote.verifier.drafting.stream_payoff import FIRST_NODES, Judged

WARMING = 32
"""Tokens to read before the answer begins."""


class OwnDrafter(OwnLookups):
    """A drafter, with what all sessions show about it: what its drafts gain, and how likely its tokens are accepted."""

    def __init__(self, drafter: Drafter, engine: Engine) -> None:
        """Raises `UnfitDrafter`."""
        if drafter.config.vocabulary != engine.vocabulary:
            sizes = f"{drafter.config.vocabulary} tokens, the target has {engine.vocabulary}"
            raise UnfitDrafter(f"The drafter knows {sizes}. Serve its own target, or leave the drafter out.")
        super().__init__(engine, (drafter.datastore(),), drafter=True)
        self.drafter, self.calibrations = drafter, _calibrations()

    def warm(self) -> None:
        """Make a draft that is discarded, to measure its time before an answer waits for one.

        A runtime's first calls take longer.
        """
        for measured in (False, True):
            context, begun = self.drafter.context(), time.monotonic()
            context.follow([0] * WARMING)
            context.draft(Pace(depth=FIRST_NODES, nodes=FIRST_NODES))
            calls, seconds = context.taken or (0, 0.0)
            if measured and calls:
                self.payoff.reading.add(time.monotonic() - begun - seconds, WARMING)
                self.payoff.calls.add(seconds, calls)

    def twin(self) -> OwnDrafter:
        """A copy that can learn: it drafts with the same graph until it is given another (`become`)."""
        twin = copy.copy(self)
        twin.drafter, twin.payoff, twin.calibrations = self.drafter.twin(), self.payoff.twin(), _calibrations()
        return twin

    def become(self, graph: Path | None, number: int) -> None:
        """From the next step on, draft with a learnt graph in all sessions, or with the drafter's own graph if None.

        The graph is loaded first, which takes a moment, and then swapped in. Raises `DrafterCorrupt`.
        """
        self.drafter.correct(None, number, graph)
        self.calibrations = _calibrations()
        self.payoff.forget_drafts()

    def drafts(self) -> OwnDrafts:
        """A drafter state for one session."""
        return OwnDrafts(self)


def _calibrations() -> dict[bool, Calibration]:
    """New calibrations, keyed by whether the target chooses greedily."""
    return {greedy: Calibration() for greedy in (True, False)}


class OwnDrafts(Lookups):
    """The drafting state of one session: the drafter's, whose tokens may lag (see `follow`), and the n-gram index."""

    def __init__(self, own: OwnDrafter) -> None:
        super().__init__(own)
        self._own, self._context = own, own.drafter.context()
        self._reading, self._read = 0.0, 0
        """Since the last draft: seconds spent on memory for the drafter alone and on reading tokens, and how many
        tokens."""

    def pays(self, length: int) -> bool:
        """Whether a draft by the drafter would be worth its time after this many tokens."""
        return self._payoff.pays and self._payoff.reads(length - self._context.memory_length)

    @property
    def remembered(self) -> int:
        """How many tokens, from the first one on without a gap, have their memory here."""
        return self._context.memory_length

    def follow(self, tokens: Sequence[int]) -> None:
        """Replace the drafter's tokens."""
        self._context.follow(tokens)

    def nbytes(self, rows: int = 0) -> int:
        """Bytes that are allocated, or that would be with this many tokens and nodes."""
        return self._context.nbytes(rows) + super().nbytes(rows)

    def read(self) -> bool:
        """Run one chunk of the new tokens and return True, if there is more than one chunk to run."""
        begun, waiting = time.monotonic(), self._context.waiting
        more = self._context.read_chunk()
        self.spent(time.monotonic() - begun)
        self._read += waiting - self._context.waiting
        return more

    def draft(self, sampling: Sampling) -> DraftTree:
        """The drafter's draft of what comes next, given how the target chooses.

        Runs the tokens that are new since the last draft.
        """
        own, payoff, begun = self._own, self._payoff, time.monotonic()
        coins = Coins.at(sampling.temperature, sampling.seed)
        cost, most = payoff.cost, own.bounds.nodes
        if not payoff.drafting.known:
            most = min(most, FIRST_NODES)
        pace = replace(own.bounds, depth=min(own.bounds.depth, most), nodes=most, cost=cost)
        tree = self._context.draft(pace, None, own.calibrations[sampling.temperature == 0], coins)
        calls, seconds = self._context.taken or (0, 0.0)
        self._drafted, self._seconds = True, time.monotonic() - begun
        self._waited += self._seconds
        read = self._read + self._context.read
        reading = self._reading + (self._seconds - seconds if read else 0.0)
        self._seconds = seconds if read else self._seconds + reading
        if calls:
            payoff.calls.add(seconds if read else seconds + reading, calls)
        if read:
            payoff.read(read, reading)
        self._reading, self._read = 0.0, 0
        return tree

    def judged(self, tree: DraftTree, judged: Judged, greedy: bool, pending: int) -> None:
        if self._drafted and len(tree):
            self._own.calibrations[greedy].learn(tree, judged.accepted, judged.bonus)
            self._payoff.guessed(bool(judged.accepted))
        super().judged(tree, judged, greedy, pending)

    def spent(self, seconds: float) -> None:
        """Count seconds for memory that only the drafter needs, as part of the next draft."""
        self._reading += seconds
        self._waited += seconds

    def remember(self, start: int, count: int, data: bytes) -> None:
        """Take the target's memory of `count` tokens from `start` on, in wire format."""
        self._context.remember(start, unpack_memory(data, count, self._own.drafter.memory_layers))
