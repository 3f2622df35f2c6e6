"""The verifier's own drafts, in hosted mode: it runs the drafter that its memory is for.

This drafter gets the target's memory as a device would, so both draft in the same way. It runs on the engine's thread,
for one session after another. Where many sessions share a forward, another token costs each of them little, and drafts
would only hold up the others: then there are none. Where the conversation repeats itself, what followed there before is
a draft that costs no call (prompt lookup, `drafter/second_stage.py`).
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from drafter.calibration import Calibration
from drafter.coin import Coins
from drafter.cost import Cost, CostMeter
from drafter.memory import unpack_memory
from drafter.runtime import Drafter
from drafter.search import Pace
from drafter.second_stage import MOST, Experience, SecondStage
from drafter.tree import DraftTree
from remote.protocol import Sampling
from remote.verifier.engine import Engine, UnfitDrafter

BOUNDS = Pace(depth=32, breadth=8, nodes=128)
"""Bounds of its trees, which are as large as pays."""
LONGEST_READ = 256
"""Longest prompt, in tokens, whose forward still says something about other rounds."""
INDEX_BYTES = 190
"""Bytes of a token in the index of what was said, as Python objects (measured: 185)."""
CROWD = 4.0
"""Sessions in a forward from which on nothing is looked up: it takes each of them time, and gains little."""
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
        self.lookups = Experience()
        """How often what followed before has followed again."""
        self.bounds = replace(BOUNDS, nodes=min(BOUNDS.nodes, engine.most_nodes or BOUNDS.nodes))
        self._company = 1.0
        """Sessions in a forward, of late."""
        self._gained, self._spent = 0.0, 0.0
        """Tokens of rounds with a draft of the drafter, and their seconds, of late."""
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
    def rate(self) -> float:
        """Tokens a second of rounds with a draft of the drafter; 0 where none pays, infinite while nothing is known."""
        if not self.pays:
            return 0.0
        return self._gained / self._spent if self._spent else math.inf

    @property
    def pays(self) -> bool:
        """Whether a draft would earn its time: a right first guess saves a round, and costs a call and a row."""
        cost = self.cost
        return cost is None or self._first_right * cost.round > cost.level + cost.node

    @property
    def crowded(self) -> bool:
        """Whether so many sessions share a forward, of late, that nothing is looked up."""
        return self._company >= CROWD

    def ran(self, judged: Judged, pending: int) -> None:
        """Take the time of a round's forward, which ran `pending` committed tokens of the session."""
        self._company += NEWEST * (judged.sessions - self._company)
        if pending <= LONGEST_READ:
            self.costs.judged(judged.rows - 1, judged.seconds)

    def guessed(self, right: bool) -> None:
        """Take whether a draft's first token was accepted."""
        self._first_right += NEWEST * (right - self._first_right)

    def drafted(self, tokens: int, nodes: int, seconds: float) -> None:
        """Take a round with a draft of the drafter: the tokens that it gained, and the seconds of the draft."""
        if (cost := self.cost) is not None:
            self._gained += NEWEST * (tokens - self._gained)
            self._spent += NEWEST * (seconds + cost.round + nodes * cost.node - self._spent)

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
    """What drafts in one session: the drafter, whose tokens may lag behind (call `follow` first), and what was said."""

    def __init__(self, own: OwnDrafter) -> None:
        self._own = own
        self._context = own.drafter.context()
        self._said = SecondStage(experience=own.lookups)
        self._seconds: float | None = None
        """How long the drafter took for the last draft; None: it was not the drafter's."""
        self._reading = 0.0
        """Seconds for memory since the last draft, which nobody else wanted."""

    @property
    def pays(self) -> bool:
        """Whether a draft of the drafter would earn its time at present."""
        return self._own.pays

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
        return self._context.read_chunk()

    def looked_up(self, tokens: Sequence[int]) -> DraftTree:
        """What followed the end of these tokens before, as a draft.

        Empty where nothing did, where it would not earn its rows, where the drafter's draft should gain more, and in a
        crowd.
        """
        if self._own.crowded:
            return DraftTree.empty()
        self._said.follow(tokens)
        cost = self._own.cost
        if cost is None or cost.round <= 0:
            return DraftTree.empty()
        self._own.lookups.row_cost = cost.node / cost.round
        guess = self._said.guess(min(MOST, self._own.bounds.nodes))
        if not guess or self._said.expected / (cost.round + len(guess) * cost.node) < self._own.rate:
            self._said.keep(0)
            return DraftTree.empty()
        return DraftTree.chain(guess)

    def draft(self, sampling: Sampling) -> DraftTree:
        """The drafter's draft of what comes next, given how the target chooses.

        Runs the tokens that are new since the last draft.
        """
        begun = time.monotonic()
        calibration = self._own.calibrations[sampling.temperature == 0]
        coins = Coins.at(sampling.temperature, sampling.seed)
        tree = self._context.draft(replace(self._own.bounds, cost=self._own.cost), None, calibration, coins)
        if self._context.taken is not None:
            calls, seconds = self._context.taken
            self._own.costs.drafted(calls, seconds + self._reading)
        self._seconds, self._reading = time.monotonic() - begun + self._reading, 0.0
        return tree

    def judged(self, tree: DraftTree, judged: Judged, greedy: bool, pending: int) -> None:
        """Learn from a round, and from its verdict on its draft if it had one. The forward ran `pending` committed
        tokens beside the tree."""
        own, seconds = self._own, self._seconds
        own.ran(judged, pending)
        if seconds is not None and len(tree):
            own.calibrations[greedy].learn(tree, judged.accepted, judged.bonus)
            own.guessed(bool(judged.accepted))
            own.drafted(len(judged.new), len(tree), seconds)
        self._seconds = None

    def spent(self, seconds: float) -> None:
        """Count seconds for memory that the drafter alone wants, as part of the next draft."""
        self._reading += seconds

    def remember(self, start: int, count: int, data: bytes) -> None:
        """Take the target's memory of `count` tokens from `start` on, in the form that it has on the wire."""
        self._context.remember(start, unpack_memory(data, count, self._own.drafter.memory_layers))
