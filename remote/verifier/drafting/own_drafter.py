"""The verifier's own drafts in hosted mode, made by the drafter that its memory is for.

This drafter gets the target's memory as a device would, so both draft in the same way. It runs on the engine's thread,
for one session after another. There is also a draft without drafter calls: what followed the same words before, in this
conversation or in the drafter's datastore (`drafter/second_stage.py`). `stream_payoff.py` decides which of the two is
made, if any, so a stream is never much slower than without drafts.
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
from drafter.second_stage import MOST, Experience, SecondStage
from models.engines.engine import Engine, UnfitDrafter
from models.memory import unpack_memory
from models.tree import DraftTree
from remote.protocol import Sampling
from remote.verifier.drafting.stream_payoff import FEW, FIRST_NODES, LONGEST_READ, Judged, Kind, StreamPayoff

BOUNDS = Pace(depth=32, breadth=8, nodes=128)
"""Bounds of its trees, whose size is chosen by cost."""
WARMING = 32
"""Tokens to read before the answer begins."""
INDEX_BYTES = 190
"""Bytes of a token in the n-gram index, as Python objects (measured: 185)."""


class OwnDrafter:
    """A drafter, with what all sessions show about it: what its drafts gain, and how likely its tokens are accepted."""

    def __init__(self, drafter: Drafter, engine: Engine) -> None:
        """Raises `UnfitDrafter`."""
        if drafter.config.vocabulary != engine.vocabulary:
            sizes = f"{drafter.config.vocabulary} tokens, the target has {engine.vocabulary}"
            raise UnfitDrafter(f"The drafter knows {sizes}. Serve its own target, or leave the drafter out.")
        self.drafter, self.payoff = drafter, StreamPayoff()
        self.calibrations = _calibrations()
        self.stored = drafter.datastore()
        """The texts of the drafter's datastore."""
        self.lookups = Experience()
        """How often a looked-up continuation came true."""
        self.bounds = replace(BOUNDS, nodes=min(BOUNDS.nodes, engine.most_nodes or BOUNDS.nodes))

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


class OwnDrafts:
    """The drafting state of one session: the drafter's, whose tokens may lag (see `follow`), and the n-gram index."""

    def __init__(self, own: OwnDrafter) -> None:
        self._own, self._payoff = own, own.payoff
        self._context = own.drafter.context()
        self._said = SecondStage((own.stored,), own.lookups)
        self._kind: Kind | None = None
        """How the next draft is made."""
        self._seconds = 0.0
        """How long that took."""
        self._reading, self._read = 0.0, 0
        """Since the last draft: seconds spent on memory for the drafter alone and on reading tokens, and how many
        tokens."""
        self._judged: float | None = None
        """When the last verdict was ready, or None before the first one of an answer."""
        self._waited = 0.0
        """Seconds spent on drafting since then."""

    def begin(self) -> None:
        """Start a new answer."""
        self._judged = None

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
        return self._context.nbytes(rows) + INDEX_BYTES * max(rows, self._said.length)

    def read(self) -> bool:
        """Run one chunk of the new tokens and return True, if there is more than one chunk to run."""
        begun, waiting = time.monotonic(), self._context.waiting
        more = self._context.read_chunk()
        self.spent(time.monotonic() - begun)
        self._read += waiting - self._context.waiting
        return more

    def looked_up(self, tokens: Sequence[int]) -> DraftTree:
        """What followed the end of these tokens before, as a draft.

        Empty if nothing followed, if it is not worth its rows, or if the drafter's draft should gain more.
        """
        own, payoff = self._own, self._payoff
        self._kind, self._seconds = None, 0.0
        if not payoff.looks:
            return DraftTree.empty()
        begun, cost = time.monotonic(), payoff.cost
        assert cost is not None
        self._said.follow(tokens)
        own.lookups.row_cost = cost.node / cost.round
        guess = self._said.guess(min(MOST if payoff.looking.known else FIRST_NODES, own.bounds.nodes))
        if guess and self._said.expected / (cost.round + len(guess) * cost.node) < payoff.gain:
            guess = []
            self._said.keep(0)
        self._kind, self._seconds = payoff.looking, time.monotonic() - begun
        self._waited += self._seconds
        return DraftTree.chain(guess) if guess else DraftTree.empty()

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
        self._kind, self._seconds = payoff.drafting, time.monotonic() - begun
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
        """Learn from a round, and from the verdict on its draft if it had one.

        The forward also ran `pending` committed tokens.
        """
        payoff, now = self._payoff, time.monotonic()
        payoff.ran(judged, pending)
        if self._judged is not None and judged.sessions == 1 and pending <= FEW:
            payoff.beside.add(max(0.0, now - self._judged - self._waited - judged.seconds))
        self._judged, self._waited = now, 0.0
        if self._kind is payoff.drafting and len(tree):
            self._own.calibrations[greedy].learn(tree, judged.accepted, judged.bonus)
            payoff.guessed(bool(judged.accepted))
        if pending <= LONGEST_READ:
            payoff.gained(self._kind, len(judged.new), len(tree), self._seconds)
        self._kind, self._seconds = None, 0.0

    def spent(self, seconds: float) -> None:
        """Count seconds for memory that only the drafter needs, as part of the next draft."""
        self._reading += seconds
        self._waited += seconds

    def remember(self, start: int, count: int, data: bytes) -> None:
        """Take the target's memory of `count` tokens from `start` on, in wire format."""
        self._context.remember(start, unpack_memory(data, count, self._own.drafter.memory_layers))
