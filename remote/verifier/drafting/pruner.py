"""Decides which nodes of a device's draft the target reads while several sessions compete for the engine.

A device sizes its draft for itself alone: it cannot see the other sessions, which each row of its draft delays. So one
rule prunes the draft here: a node stays if its chance of being accepted exceeds the number of tokens that the other
sessions gain in the time of a row. If there are no others, all nodes stay; if the engine is always busy, only nearly
certain ones do.

A node's chance is estimated from earlier nodes of its kind, whoever drafted them. Its kind is its place among its
siblings, their number, and its depth: a drafter in doubt gives a node more children, and the likelier ones first. The
token after the last accepted node says something about all its children, including those that were left out.

Pruning never changes the text: the target chooses on its own, and the remaining tree decides only how many of its
choices were guessed. This does not hold for a sampled tree, so such a tree stays whole.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.tree import ROOT, DraftTree
from remote.verifier.drafting.forward_times import ForwardTimes
from remote.verifier.drafting.stream_payoff import LONGEST_READ, Judged

WINDOW = 2.0
"""Seconds over which the gain of the sessions is measured."""
PLACES, SIBLINGS, DEPTHS = 4, 4, 5
"""Kinds of nodes by place, by siblings and by depth: 1, 2, up to 4, up to 8, and more. The last class of each holds all
beyond."""
TRUST = 8.0
"""Every kind starts as if this many of its nodes had been judged and all accepted, so nothing is pruned untried."""
MEMORY = 512.0
"""Judged nodes of a kind after which the older ones count half."""


class Chances:
    """How often nodes of each kind were accepted, given that their parents were."""

    def __init__(self) -> None:
        self._accepted = np.full((PLACES, SIBLINGS, DEPTHS), TRUST)
        self._judged = self._accepted.copy()

    def of(self, tree: DraftTree) -> NDArray[np.float64]:
        """For each node, the chance that it and all its ancestors are accepted, (n,)."""
        kinds, chances = _kinds(tree), np.ones(len(tree) + 1)
        given = self._accepted[kinds] / self._judged[kinds]
        for node, parent in enumerate(tree.parents.tolist()):  # The last entry stands for the root.
            chances[node] = chances[parent] * given[node]
        return chances[:-1]

    def learn(self, tree: DraftTree, accepted: Sequence[int], bonus: int | None) -> None:
        """Record a verdict. `tree`: the whole draft, pruned nodes included. `accepted`: nodes of it."""
        kinds, children = np.stack(_kinds(tree), axis=1), tree.children()
        chosen = [*tree.tokens[list(accepted)].tolist(), *([] if bonus is None else [bonus])]
        for parent, token in zip([ROOT, *accepted], chosen):
            for other, node in children.get(parent, {}).items():
                kind = tuple(kinds[node])
                if self._judged[kind] >= MEMORY:
                    self._judged[kind] /= 2
                    self._accepted[kind] /= 2
                self._judged[kind] += 1
                self._accepted[kind] += other == token


def _kinds(tree: DraftTree) -> tuple[NDArray[np.intp], ...]:
    """The place among its siblings, their number and the depth of each node, as indices, (n,) each."""
    count, places = Counter[int](), list[int]()
    for parent in tree.parents.tolist():
        places.append(count[parent])
        count[parent] += 1
    siblings = np.array([count[parent] - 1 for parent in tree.parents.tolist()], np.intp)
    depths = np.ceil(np.log2(np.maximum(tree.depths(), 1))).astype(np.intp)
    most = (PLACES, SIBLINGS, DEPTHS)
    return tuple(np.minimum(part, size - 1) for part, size in zip((np.array(places, np.intp), siblings, depths), most))


class _Gain(NamedTuple):
    when: float
    session: str
    tokens: int
    seconds: float
    """The share of the engine's time that it took."""


class Pruner:
    """Prunes the drafts of all sessions, and learns from the verdicts on the rest.

    Belongs to the engine's thread.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.chances, self.forwards, self._now = Chances(), ForwardTimes(), now
        self._gains = deque[_Gain]()
        """The gains in the window, oldest first."""
        self._tokens = Counter[str]()
        """Tokens of each session in the window."""
        self._seconds = 0.0

    def ran(self, session: str, judged: Judged, pending: int) -> None:
        """Record what a round of any session gained. The forward ran `pending` committed tokens of that session."""
        if pending <= LONGEST_READ:
            self.forwards.add(judged.sessions, judged.rows, judged.seconds)
        gain = _Gain(self._now(), session, len(judged.new), judged.seconds / judged.sessions)
        self._gains.append(gain)
        self._tokens[session] += gain.tokens
        self._seconds += gain.seconds
        self._forget()

    def price(self, session: str) -> float:
        """Tokens that the other sessions gain in the time of a row, scaled by how busy the engine is."""
        self._forget()
        others = self._tokens.total() - self._tokens[session]
        if not others:
            return 0.0
        return self.forwards.row * others / WINDOW * min(1.0, self._seconds / WINDOW)

    def kept(self, session: str, tree: DraftTree) -> NDArray[np.bool_] | None:
        """The nodes that are worth their rows, (n,), each with all its ancestors, or None for all nodes."""
        if not len(tree) or tree.candidates is not None or not (price := self.price(session)):
            return None
        kept: NDArray[np.bool_] = self.chances.of(tree) > price
        return None if kept.all() else kept

    def _forget(self) -> None:
        """Drop what is older than the window."""
        while self._gains and self._gains[0].when < self._now() - WINDOW:
            gain = self._gains.popleft()
            self._seconds -= gain.seconds
            self._tokens[gain.session] -= gain.tokens
            if not self._tokens[gain.session]:
                del self._tokens[gain.session]
