"""The verifier's own drafts, in hosted mode: it runs the drafter that its memory is for.

This drafter gets the target's memory as a device would, so both draft in the same way. It runs on the engine's thread,
for one session after another. Where many sessions share a forward, another token costs each of them little, and drafts
would only hold up the others: then there are none.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from drafter.calibration import Calibration
from drafter.cost import Cost, CostMeter
from drafter.memory import unpack_memory
from drafter.runtime import Drafter
from drafter.search import Pace
from drafter.tree import DraftTree
from remote.verifier.engine import Engine, UnfitDrafter

BOUNDS = Pace(depth=32, breadth=8, nodes=128)
"""Bounds of its trees, which are as large as pays."""
LONGEST_READ = 256
"""Longest prompt, in tokens, whose forward still says something about other rounds."""
NEWEST = 0.1
"""Weight of the newest round in what is known of first guesses and of company."""


class Judged(NamedTuple):
    """The verdict on a draft, and what its forward cost."""

    accepted: tuple[int, ...]
    bonus: int | None
    new: list[int]
    rows: int
    """Rows of all sessions in the forward."""
    seconds: float
    sessions: int
    """How many shared it."""


class OwnDrafter:
    """A drafter, and what all sessions teach about it: the cost of its calls, and the chances of its tokens."""

    def __init__(self, drafter: Drafter, engine: Engine) -> None:
        """Raises `UnfitDrafter`."""
        if drafter.config.vocabulary != engine.vocabulary:
            sizes = f"{drafter.config.vocabulary} tokens, the target has {engine.vocabulary}"
            raise UnfitDrafter(f"The drafter knows {sizes}. Serve its own target, or leave the drafter out.")
        self.drafter = drafter
        self.costs = CostMeter()
        """Whole forwards, with the rows of all sessions."""
        self.calibrations = _calibrations()
        self._company = 1.0
        """Sessions in a forward, of late."""
        self._first_right = 0.8
        """How often a draft's first token was accepted, of late."""

    @property
    def cost(self) -> Cost | None:
        """What a round costs one session, which shares a forward with as many others as of late. None: not known."""
        whole = self.costs.cost
        if whole is None:
            return None
        others = self._company - 1
        return Cost((whole.round + others * whole.node) / self._company, whole.level, whole.node)

    @property
    def pays(self) -> bool:
        """Whether a draft would earn its time: a right first guess saves a round, and costs a call and a row."""
        cost = self.cost
        return cost is None or self._first_right * cost.round > cost.level + cost.node

    def ran(self, judged: Judged, pending: int) -> None:
        """Take the time of a round's forward, which ran `pending` committed tokens of the session."""
        self._company += NEWEST * (judged.sessions - self._company)
        if pending <= LONGEST_READ:
            self.costs.judged(judged.rows - 1, judged.seconds)

    def guessed(self, right: bool) -> None:
        """Take whether a draft's first token was accepted."""
        self._first_right += NEWEST * (right - self._first_right)

    def twin(self) -> OwnDrafter:
        """One more, which drafts with the same graph until it becomes another (`become`)."""
        twin = copy.copy(self)
        twin.drafter, twin.calibrations = self.drafter.twin(), _calibrations()
        return twin

    def become(self, graph: Path | None, number: int) -> None:
        """Draft with a graph that learnt from the next step on, in all sessions; None: with the drafter's own.

        It is loaded first, which takes a moment, and then changed at once. Raises `DrafterCorrupt`.
        """
        self.drafter.correct(None, number, graph)
        self.calibrations = _calibrations()

    def drafts(self) -> OwnDrafts:
        """A drafter state for one session."""
        return OwnDrafts(self)


def _calibrations() -> dict[bool, Calibration]:
    """Fresh ones, by whether the target chooses greedily."""
    return {greedy: Calibration() for greedy in (True, False)}


class OwnDrafts:
    """The drafter's state in one session. Its tokens may lag behind the session's: call `follow` first."""

    def __init__(self, own: OwnDrafter) -> None:
        self._own = own
        self._context = own.drafter.context()

    @property
    def pays(self) -> bool:
        """Whether a draft would earn its time at present."""
        return self._own.pays

    @property
    def remembered(self) -> int:
        """How many tokens, from the first one on without a gap, have their memory here."""
        return self._context.memory_length

    def follow(self, tokens: Sequence[int]) -> None:
        """Replace the tokens."""
        self._context.follow(tokens)

    def nbytes(self, rows: int = 0) -> int:
        """Bytes that are allocated, or that would be with this many tokens and nodes."""
        return self._context.nbytes(rows)

    def read(self) -> bool:
        """Run one chunk of the new tokens and return True, if there is more than one chunk to run."""
        return self._context.read_chunk()

    def draft(self, greedy: bool) -> DraftTree:
        """A draft of what comes next, given how the target chooses.

        Runs the tokens that are new since the last draft.
        """
        calibration = self._own.calibrations[greedy]
        tree = self._context.draft(replace(BOUNDS, cost=self._own.cost), None, calibration)
        if self._context.taken is not None:
            self._own.costs.drafted(*self._context.taken)
        return tree

    def judged(self, tree: DraftTree, judged: Judged, greedy: bool, pending: int) -> None:
        """Learn from a round, and from its verdict on the last draft if it had one. The forward ran `pending` committed
        tokens beside the tree."""
        self._own.ran(judged, pending)
        if len(tree):
            self._own.calibrations[greedy].learn(tree, judged.accepted, judged.bonus)
            self._own.guessed(bool(judged.accepted))

    def remember(self, start: int, count: int, data: bytes) -> None:
        """Take the target's memory of `count` tokens from `start` on, in the form that it has on the wire."""
        self._context.remember(start, unpack_memory(data, count, self._own.drafter.memory_layers))
