"""Verifies a draft: one forward, the walk down the tree, the commit, and what else the target might have said.

An answer is a generator that yields forwards and is sent their results, so that the forwards of many sessions can run
together (`remote/verifier/sessions/turns.py`).
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from models.engines.engine import Floats, Forward
from models.tree import ROOT, DraftTree
from remote.protocol import Likeliest, Memory, Progress, Proposed, Sampling, Verdict
from remote.verifier.drafting.stream_payoff import Judged
from remote.verifier.learning.likeliest import likeliest
from remote.verifier.sessions.acceptance import Processing, at_most, chooser, walk
from remote.verifier.sessions.answer_options import AnswerOptions
from remote.verifier.sessions.table import Session

T = TypeVar("T")


class Computed(NamedTuple):
    """The result of a forward."""

    logits: Floats
    """(1 + n, V), after the root and after each node; (0, V) if there was no tree."""
    rows: int
    """Rows of all sessions in this forward."""
    seconds: float
    sessions: int
    """How many sessions shared it."""


Answer = Generator[Verdict | Progress | Memory | Likeliest | Proposed | Forward | None, Computed | None, None]
"""Yields frames, None for a turn whose result stays inside the verifier, and forwards, whose results are sent in."""
Computing = Generator[Forward | None, Computed | None, T]
"""A part of an answer that yields no frames."""


@dataclass(frozen=True, eq=False)
class Verified:
    """A draft that the target has read, and whose tokens are committed.

    Use the logits at once: kept for a later turn, they would be memory that is not accounted for.
    """

    start: int
    """Position of the first new token."""
    tree: DraftTree
    """The nodes that fitted."""
    places: NDArray[np.intp]
    """The index of each of them in the draft."""
    accepted: tuple[int, ...]
    """Nodes of `tree`."""
    logits: Floats
    """After the root and after each node of `tree`, (1 + n, V)."""
    judged: Judged

    def before(self) -> Floats:
        """The logits before each of the new tokens, (n, V)."""
        return self.logits[self._rows]

    @property
    def _rows(self) -> list[int]:
        return [0, *(node + 1 for node in self.accepted)][: len(self.judged.new)]

    def likeliest(self, most: int, rejected: int) -> Likeliest:
        """What the target might have said instead of the new tokens, and after as many rejected nodes as requested.

        `most`: tokens of each distribution.
        """
        others, count = self.tree.rejected(self.accepted, rejected), len(self.judged.new)
        rows = self._rows + [node + 1 for node in others]
        return Likeliest.pack(self.start, count, self.places[others].tolist(), *likeliest(self.logits[rows], most))


def verify(
    session: Session,
    tree: DraftTree,
    sampling: Sampling,
    room: int,
    stop_tokens: frozenset[int],
    options: AnswerOptions | None = None,
    kept: NDArray[np.bool_] | None = None,
) -> Computing[Verified]:
    """Verify a draft and commit at most `room` new tokens. At most one chunk of tokens may still be uncomputed.

    `kept`: the nodes of the draft that are read; see `at_most`.
    """
    context, start = session.context, len(session.context.tokens)
    shallow, places = at_most(tree, room - 1, kept)
    computed = yield Forward(context, start - context.computed, shallow)
    assert computed is not None
    process = None if options is None or not options.changes else _along(shallow, options)
    choose = chooser(computed.logits, sampling, shallow, process)
    result = walk(shallow, choose, position=start, room=room, stop_tokens=stop_tokens)
    new = context.commit(shallow, result.accepted, result.bonus)
    session.digest.extend(new)
    accepted = tuple(int(places[node]) for node in result.accepted)
    judged = Judged(accepted, result.bonus, new, computed.rows, computed.seconds, computed.sessions)
    verified = Verified(start, shallow, places, result.accepted, computed.logits, judged)
    if options is not None:
        options.take(new, verified.before)
    return verified


def _along(tree: DraftTree, options: AnswerOptions) -> Processing:
    """Makes the function that changes the logits after each node, given the tokens that lead to it."""
    tokens, parents = tree.tokens.tolist(), tree.parents.tolist()

    def process(row: int, logits: Floats) -> Floats:
        path, node = list[int](), row - 1
        while node != ROOT:
            path.append(tokens[node])
            node = parents[node]
        return options.processed(logits, path[::-1])

    return process
