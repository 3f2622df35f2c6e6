"""Records what can be learnt from the sessions. Runs on the engine's thread, at almost no cost per round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from weakref import WeakSet

import numpy as np
from msgspec import UNSET, UnsetType

from drafter.learning.distributions import TEXT, Distributions
from models.config import FirstMemory
from remote.protocol import MOST_REJECTED
from remote.verifier.learning.answers import Answer, Answers
from remote.verifier.learning.likeliest import likeliest
from remote.verifier.learning.trail import MOST_TOKENS, Trail

if TYPE_CHECKING:
    from remote.verifier.sessions.verification import Verified


class Recorder:
    """Follows the sessions, and puts each finished answer into `answers`.

    `first`: the memory that the drafter knows without a server.
    """

    def __init__(self, answers: Answers, first: FirstMemory | UnsetType) -> None:
        self._answers, self._first = answers, first
        self._trails: WeakSet[Trail] = WeakSet()

    def began(self, holder: str) -> Trail:
        """The trail of a new session."""
        trail = Trail(holder)
        self._trails.add(trail)
        return trail

    def went_on(self, trail: Trail, tokens: Sequence[int], base: int, append: Sequence[int]) -> None:
        """The session's tokens become the first `base` ones and `append`."""
        self._keep(trail, trail.go_on(tokens, base, append))
        begins = tokens if base else append
        if self._first is not UNSET and begins and begins[0] == self._first.token:
            trail.remember(0, 1, self._first.memory)

    def gained(self, trail: Trail, memory: int, verified: Verified) -> None:
        """A round brought new tokens.

        `memory`: how many tokens, from the first on, had memory where its tree was drafted.
        """
        length, count, tree, accepted = verified.start, len(verified.judged.new), verified.tree, verified.accepted
        if length + count > MOST_TOKENS:
            return
        others = tree.rejected(accepted, MOST_REJECTED)
        rows = [0, *(1 + node for node in accepted)][:count] + [1 + node for node in others]
        positions = [*range(length, length + count), *(length + int(depth) for depth in tree.depths()[others])]
        instead = [TEXT] * count + [int(token) for token in tree.tokens[others]]
        told = likeliest(verified.logits[rows])
        trail.gain(length, memory, count, Distributions(np.array(positions), np.array(instead, np.int64), *told))

    def remembered(self, trail: Trail, start: int, count: int, data: bytes) -> None:
        """Memory of tokens was computed."""
        if self._answers.fits(len(data) + sum(one.bytes for one in self._trails)):
            trail.remember(start, count, data)

    def ended(self, trail: Trail, tokens: Sequence[int]) -> None:
        """The answer is complete: the target ended it, or nobody continues it."""
        self._keep(trail, trail.end(tokens))

    def _keep(self, trail: Trail, answer: Answer | None) -> None:
        if answer is not None:
            self._answers.add(trail.holder, answer)
