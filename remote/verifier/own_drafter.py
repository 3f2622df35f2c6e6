"""The verifier's own drafts, in hosted mode: it runs the drafter that its memory is for.

This drafter gets the target's memory as a device would, so both draft in the same way. It runs on the engine's thread,
for one session after another. A draft that costs no call is what followed the same words before, in this conversation
and in the drafter's datastore (`drafter/second_stage.py`). Which of the two is made, if any, follows from what rounds
with each have gained a second. Where many sessions share a forward, a row more costs as much as a token of somebody
else: then there are fewer drafts, and in the end none. A stream is never much slower than one without drafts: trying
whether they pay may cost a twentieth of its time (`drafter/pacer.py`).
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
from drafter.cost import Cost
from drafter.pacer import Allowance
from drafter.runtime import Drafter
from drafter.search import Pace
from drafter.second_stage import MOST, Experience, SecondStage
from models.engines.engine import Engine, UnfitDrafter
from models.memory import unpack_memory
from models.tree import DraftTree
from remote.protocol import Sampling
from remote.verifier.forward_times import ForwardTimes, Mean

BOUNDS = Pace(depth=32, breadth=8, nodes=128)
"""Bounds of its trees, which are as large as pays."""
FIRST_NODES = 4
"""Most nodes of a draft until drafts of its kind are known to pay."""
WARMING = 32
"""Tokens that are read before there is an answer."""
FEW = 8
"""Tokens that are read in passing."""
SAVED = 20.0
"""Tokens that are saved up for trials at most: the drafter reads a whole conversation for one."""
LOOKING = 1.0
"""Tokens of the allowance for which something is looked up to try whether that pays."""
PLAIN = 2
"""Rounds without a draft before the first one with a draft: they show what a draft has to beat."""
LONGEST_READ = 256
"""Longest prompt, in tokens, whose forward still says something about other rounds."""
INDEX_BYTES = 190
"""Bytes of a token in the index of what was said, as Python objects (measured: 185)."""
LONG = 0.99
"""Weight that a round keeps at the next one where reading is counted: about 100 rounds count, of several answers."""
NEWEST = 0.1
"""Weight of the newest round in what is known of first guesses and of company."""
TRIAL = 16
"""Rounds of a kind after which it is judged by what they gained."""
FIRST_REST, REST = 256, 4096
"""Rounds without one of a kind after which it is tried again: at first, and at last; each time twice as many."""
CROWD = 4.0
"""Sessions in a forward from which on nothing is drafted only to learn from it."""
LITTLE = 0.95
"""Looking up goes on where rounds with it gain this share of what others gain: a text may begin to repeat itself."""
FULL_PRICE = 0.9
"""Nothing is looked up where a row costs this share of a round or more: next to no guess is as sure as that."""


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


class Gain(Mean):
    """What rounds of one kind have come to of late: their tokens, their nodes, and the seconds for their drafts."""

    def __init__(self) -> None:
        super().__init__()
        self.rested = 0
        """Rounds of other kinds since the last one."""

    @property
    def known(self) -> bool:
        return self.count >= TRIAL

    def add(self, seconds: float, *sizes: float) -> None:
        """Take a round. `sizes`: its tokens, and the nodes of its draft."""
        super().add(seconds, *sizes)
        self.rested = 0

    def rate(self, cost: Cost) -> float:
        """Tokens a second, where a forward costs so much. There was a round."""
        tokens, nodes = self.sizes.tolist()
        return float(tokens / max(cost.round + nodes * cost.node + self.seconds, 1e-9))


class OwnDrafter:
    """A drafter, and what all sessions teach about it: the cost of its calls, and the chances of its tokens."""

    def __init__(self, drafter: Drafter, engine: Engine) -> None:
        """Raises `UnfitDrafter`."""
        if drafter.config.vocabulary != engine.vocabulary:
            sizes = f"{drafter.config.vocabulary} tokens, the target has {engine.vocabulary}"
            raise UnfitDrafter(f"The drafter knows {sizes}. Serve its own target, or leave the drafter out.")
        self.drafter = drafter
        self.calls = Mean()
        """What drafts take, by the drafter calls in them."""
        self.forwards = ForwardTimes()
        """Whole forwards, with the rows of all sessions."""
        self.calibrations = _calibrations()
        self.stored = drafter.datastore()
        """The texts of the drafter's datastore."""
        self.lookups = Experience()
        """How often what followed before has followed again."""
        self.bounds = replace(BOUNDS, nodes=min(BOUNDS.nodes, engine.most_nodes or BOUNDS.nodes))
        self._company = 1.0
        """Sessions in a forward, of late."""
        self.looking = Gain()
        """Rounds for which something was looked up, found or not."""
        self.reading = Mean()
        """What it takes to read tokens that were said without the drafter, with their memory, by their number."""
        self.beside = Mean()
        """What a round takes beside its forward and its draft, in a session that is alone."""
        self.allowance = Allowance(most=SAVED)
        """What trying may cost, in tokens that rounds without drafts would have given."""
        self._read_seconds = self._read_rounds = 0.0
        """Seconds for reading, and rounds with drafts that it was for, of late."""
        self._plain = 0
        """Rounds without a draft."""
        self.learning = False
        """It learns from what its drafts meet. So it drafts also where that does not pay, but not in a crowd."""
        self._rests = {"drafting": FIRST_REST, "looking": FIRST_REST}
        self._forget_drafts()

    def _forget_drafts(self) -> None:
        """Know nothing of what the drafter's drafts gain, so that they are tried."""
        self.drafting = Gain()
        """Rounds with a draft of the drafter."""
        self.calls.count = min(self.calls.count, 1)  # The next draft says as much of what calls take as all before.
        self._first_right = 0.8
        """How often a draft's first token was accepted, of late."""

    @property
    def cost(self) -> Cost | None:
        """What a round costs one session, which shares a forward with as many others as of late. None: not known."""
        if not self.calls.count or not self.forwards.known:
            return None
        company, (calls,) = self._company, self.calls.sizes
        whole = self.forwards.seconds(company, company)
        return Cost(whole / company + self.beside.seconds, self.calls.seconds / float(calls), self.forwards.row)

    @property
    def rate(self) -> float:
        """Tokens a second of rounds with a draft of the drafter; 0 where none pays, infinite while nothing is known."""
        cost = self.cost
        if not self.pays:
            return 0.0
        return math.inf if cost is None or not self.drafting.known else self.drafting.rate(cost)

    @property
    def pays(self) -> bool:
        """Whether a draft of the drafter would earn its time.

        A right first guess saves a round, and costs a call and a row. Rounds with drafts must gain more a second than
        those without. Until that is known, they may gain less, within the allowance.
        """
        if self.learning and self._company < CROWD:
            return True
        if self._plain < PLAIN:
            return False
        cost = self.cost
        if cost is None:
            return True
        if self._first_right * cost.round <= cost.level + cost.node:
            return False
        if self.drafting.known or self._gains(cost):
            return self._gains(cost)
        return self.allowance.left * cost.round >= FIRST_NODES * (cost.level + cost.node)

    def _gains(self, cost: Cost, beside: float = 0.0) -> bool:
        """Whether rounds with a draft have gained more a second than others, as far as there were any.

        `beside`: seconds that each of them takes beside.
        """
        other = 1 / max(cost.round, 1e-9)
        if self.looking.known:
            other = max(other, self.looking.rate(cost))
        return self.drafting.count > 0 and self.drafting.rate(replace(cost, round=cost.round + beside)) > other

    def reads(self, tokens: int) -> bool:
        """Whether reading so many tokens, which the drafter has not read, would earn its time.

        It does where drafts have gained more than they and what was read for them took; else it may be a trial.
        """
        cost = self.cost
        if cost is None or tokens <= FEW or not self.reading.count:
            return True
        if self.learning or self._gains(cost, self._read_seconds / max(self._read_rounds, 1.0)):
            return True
        each = self.reading.seconds / float(self.reading.sizes[0])
        return tokens * each + FIRST_NODES * (cost.level + cost.node) <= self.allowance.left * cost.round

    @property
    def looks(self) -> bool:
        """Whether looking something up has about earned its time and its rows, or should be tried."""
        cost = self.cost
        if cost is None or cost.node >= FULL_PRICE * cost.round:
            return False
        return (not self.looking.known and self.allowance.left >= LOOKING) or (
            self.looking.count > 0 and self.looking.rate(cost) * cost.round > LITTLE
        )

    def ran(self, judged: Judged, pending: int) -> None:
        """Take the time of a round's forward, which ran `pending` committed tokens of the session."""
        self._company += NEWEST * (judged.sessions - self._company)
        if pending <= LONGEST_READ:
            self.forwards.add(judged.sessions, judged.rows, judged.seconds)

    def guessed(self, right: bool) -> None:
        """Take whether a draft's first token was accepted."""
        self._first_right += NEWEST * (right - self._first_right)

    def gained(self, kind: Gain | None, tokens: int, nodes: int, seconds: float) -> None:
        """Take how many tokens a round gave, with so many nodes and so many seconds for its draft.

        `kind`: one of `drafting` and `looking`, or None where nothing was tried.
        """
        cost = self.cost
        self._plain += not nodes
        if kind is not None:
            kind.add(seconds, tokens, nodes)
        if cost is not None:
            taken = (cost.round + nodes * cost.node + seconds) / cost.round
            self.allowance.earned(taken)
            self.allowance.spent(taken - tokens if kind is not None else 0.0)
        if kind is self.drafting:
            self._read_rounds = LONG * self._read_rounds + 1
            self._read_seconds *= LONG
        else:
            self.drafting.rested += 1
            if self.drafting.rested >= self._rests["drafting"]:
                self._rested("drafting")
                self._forget_drafts()
        if kind is not self.looking:
            self.looking.rested += 1
            if self.looking.rested >= self._rests["looking"]:
                self._rested("looking")
                self.looking = Gain()

    def _rested(self, kind: str) -> None:
        """Double the next rest of a kind."""
        self._rests = {**self._rests, kind: min(REST, 2 * self._rests[kind])}

    def warm(self) -> None:
        """Draft for nobody, to know what that takes before an answer waits for it. A runtime's first calls take
        longer."""
        for measured in (False, True):
            context, begun = self.drafter.context(), time.monotonic()
            context.follow([0] * WARMING)
            context.draft(Pace(depth=FIRST_NODES, nodes=FIRST_NODES))
            calls, seconds = context.taken or (0, 0.0)
            if measured and calls:
                self.reading.add(time.monotonic() - begun - seconds, WARMING)
                self.calls.add(seconds, calls)

    def read(self, tokens: int, seconds: float) -> None:
        """Take what it took to read so many tokens for a draft, which the draft does not count."""
        self.reading.add(seconds, tokens)
        self._read_seconds += seconds
        if (cost := self.cost) is not None:
            self.allowance.spent(seconds / cost.round)

    def twin(self) -> OwnDrafter:
        """One more, which learns: it drafts with the same graph until it becomes another (`become`)."""
        twin = copy.copy(self)
        twin.drafter, twin.calibrations, twin.looking = self.drafter.twin(), _calibrations(), Gain()
        twin.learning = True
        twin._forget_drafts()
        return twin

    def become(self, graph: Path | None, number: int) -> None:
        """Draft with a graph that learnt from the next step on, in all sessions; None: with the drafter's own.

        It is loaded first, which takes a moment, and then changed at once. Raises `DrafterCorrupt`.
        """
        self.drafter.correct(None, number, graph)
        self.calibrations = _calibrations()
        self._forget_drafts()

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
        self._said = SecondStage((own.stored,), own.lookups)
        self._kind: Gain | None = None
        """How the coming draft is made."""
        self._seconds = 0.0
        """How long that took."""
        self._reading, self._read = 0.0, 0
        """Since the last draft: seconds for memory that nobody else wanted and for tokens, and how many of these."""
        self._judged: float | None = None
        """When the last verdict was there; None before the first one of an answer."""
        self._waited = 0.0
        """Seconds since then that went into a draft."""

    def begin(self) -> None:
        """An answer begins."""
        self._judged = None

    def pays(self, length: int) -> bool:
        """Whether a draft of the drafter would earn its time after so many tokens."""
        return self._own.pays and self._own.reads(length - self._context.memory_length)

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

        Empty where nothing did, where it would not earn its rows, and where the drafter's draft should gain more.
        """
        own = self._own
        self._kind, self._seconds = None, 0.0
        if not own.looks:
            return DraftTree.empty()
        begun, cost = time.monotonic(), own.cost
        assert cost is not None
        self._said.follow(tokens)
        own.lookups.row_cost = cost.node / cost.round
        guess = self._said.guess(min(MOST if own.looking.known else FIRST_NODES, own.bounds.nodes))
        if guess and self._said.expected / (cost.round + len(guess) * cost.node) < own.rate:
            guess = []
            self._said.keep(0)
        self._kind, self._seconds = own.looking, time.monotonic() - begun
        self._waited += self._seconds
        return DraftTree.chain(guess) if guess else DraftTree.empty()

    def draft(self, sampling: Sampling) -> DraftTree:
        """The drafter's draft of what comes next, given how the target chooses.

        Runs the tokens that are new since the last draft.
        """
        own, begun = self._own, time.monotonic()
        coins = Coins.at(sampling.temperature, sampling.seed)
        cost, most = own.cost, own.bounds.nodes
        if not own.drafting.known:
            most = min(most, FIRST_NODES)
        pace = replace(own.bounds, depth=min(own.bounds.depth, most), nodes=most, cost=cost)
        tree = self._context.draft(pace, None, own.calibrations[sampling.temperature == 0], coins)
        calls, seconds = self._context.taken or (0, 0.0)
        self._kind, self._seconds = own.drafting, time.monotonic() - begun
        self._waited += self._seconds
        read = self._read + self._context.read
        reading = self._reading + (self._seconds - seconds if read else 0.0)
        self._seconds = seconds if read else self._seconds + reading
        if calls:
            own.calls.add(seconds if read else seconds + reading, calls)
        if read:
            own.read(read, reading)
        self._reading, self._read = 0.0, 0
        return tree

    def judged(self, tree: DraftTree, judged: Judged, greedy: bool, pending: int) -> None:
        """Learn from a round, and from its verdict on its draft if it had one. The forward ran `pending` committed
        tokens beside the tree."""
        own, now = self._own, time.monotonic()
        own.ran(judged, pending)
        if self._judged is not None and judged.sessions == 1 and pending <= FEW:
            own.beside.add(max(0.0, now - self._judged - self._waited - judged.seconds))
        self._judged, self._waited = now, 0.0
        if self._kind is own.drafting and len(tree):
            own.calibrations[greedy].learn(tree, judged.accepted, judged.bonus)
            own.guessed(bool(judged.accepted))
        if pending <= LONGEST_READ:
            own.gained(self._kind, len(judged.new), len(tree), self._seconds)
        self._kind, self._seconds = None, 0.0

    def spent(self, seconds: float) -> None:
        """Count seconds for memory that the drafter alone wants, as part of the next draft."""
        self._reading += seconds
        self._waited += seconds

    def remember(self, start: int, count: int, data: bytes) -> None:
        """Take the target's memory of `count` tokens from `start` on, in the form that it has on the wire."""
        self._context.remember(start, unpack_memory(data, count, self._own.drafter.memory_layers))
