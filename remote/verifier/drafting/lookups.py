"""Drafts without a drafter: what followed the same words earlier, in this conversation or in stored texts.

They cost only the rows of a forward, so a target without a drafter has them too. A draft has as many tokens as give the
most expected tokens per second: their chances follow from how often such matches have come true
(`drafter/second_stage.py`), the seconds from how long forwards with as many rows have taken (`stream_payoff.py`). On
the engine's thread, for one session after another.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from drafter.ngram import NGramIndex
from drafter.search import Pace
from drafter.second_stage import Experience, SecondStage
from models.engines.engine import Engine
from models.tree import DraftTree
from remote.verifier.drafting.stream_payoff import FEW, LONGEST_READ, Judged, StreamPayoff

BOUNDS = Pace(depth=32, breadth=8, nodes=128)
"""Bounds of a draft, whose size is chosen by cost."""
INDEX_BYTES = 190
"""Bytes of a token in the n-gram index, as Python objects (measured: 185)."""


class OwnLookups:
    """What all sessions show about lookups. `stored`: texts to look up in besides the conversation's own."""

    def __init__(self, engine: Engine, stored: Sequence[NGramIndex] = (), *, drafter: bool = False) -> None:
        self.payoff, self.stored = StreamPayoff(drafter=drafter), stored
        self.experience = Experience()
        """How often a looked-up continuation came true."""
        self.bounds = replace(BOUNDS, nodes=min(BOUNDS.nodes, engine.most_nodes or BOUNDS.nodes))

    def drafts(self) -> Lookups:
        """The state of one session."""
        return Lookups(self)


class Lookups:
    """The drafts of one session: its n-gram index, and what its rounds show."""

    def __init__(self, own: OwnLookups) -> None:
        self._shared, self._payoff = own, own.payoff
        self._said = SecondStage(own.stored, own.experience)
        self._drafted, self._seconds = False, 0.0
        """Whether the drafter made the next draft, and how long that took."""
        self._judged: float | None = None
        """When the last verdict was ready, or None before the first one of an answer."""
        self._waited = 0.0
        """Seconds spent on drafting since then."""

    def begin(self, tokens: Sequence[int]) -> None:
        """Start a new answer, after these tokens."""
        self._said.follow(tokens)
        self._judged = None

    @property
    def remembered(self) -> int | None:
        """How many tokens, from the first one on without a gap, the drafter has memory of. None without a drafter."""
        return None

    def nbytes(self, rows: int = 0) -> int:
        """Bytes that are allocated, or that would be with this many tokens and nodes."""
        return INDEX_BYTES * max(rows, self._said.length)

    def looked_up(self) -> DraftTree:
        """What followed the same words before, as a draft.

        Empty if nothing followed, if it is not worth its rows, or if the drafter's draft should gain more.
        """
        begun, payoff = time.monotonic(), self._payoff
        if not self._said.follows() or (costs := payoff.looking(self._shared.bounds.nodes)) is None:
            return DraftTree.empty()
        guess = self._said.guess(costs=costs)
        if guess and payoff.gain and self._said.expected < payoff.gain * costs[len(guess)]:
            guess = []
            self._said.keep(0)
        self._waited += time.monotonic() - begun
        return DraftTree.chain(guess) if guess else DraftTree.empty()

    def judged(self, tree: DraftTree, judged: Judged, greedy: bool, pending: int) -> None:
        """Learn from a round, and from the verdict on its draft if it had one.

        The forward also ran `pending` committed tokens.
        """
        payoff, now = self._payoff, time.monotonic()
        self._said.commit(judged.new)
        payoff.ran(judged, pending)
        if self._judged is not None and judged.sessions == 1 and pending <= FEW:
            payoff.beside.add(max(0.0, now - self._judged - self._waited - judged.seconds))
        self._judged, self._waited = now, 0.0
        if pending <= LONGEST_READ:
            payoff.gained(len(judged.new), len(tree), self._seconds, drafted=self._drafted)
        self._drafted, self._seconds = False, 0.0
