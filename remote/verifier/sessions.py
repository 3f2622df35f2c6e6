"""The verifier's sessions: what is committed, which round came last, and who has to leave when memory is short.

Belongs to one thread, the one that runs the engine: so a round is atomic, and no lock is needed. Knows the messages
but not HTTP. A reply's memory is computed on demand from the session's slab; as no later round has touched it, a
repeated round streams the same bytes again without a copy being kept.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

import numpy as np

from drafter.tree import DraftTree
from remote.protocol import (
    Conflict,
    ErrorCode,
    Limits,
    Memory,
    ProtocolError,
    Round,
    RunningDigest,
    Verdict,
    unpack_tokens,
)
from remote.verifier.acceptance import chooser, walk
from remote.verifier.engine import Context, Engine, UnknownToken

FRAME_TOKENS = 64
"""Tokens of memory in one frame: small enough that another session's round never waits long behind one."""


class RoundRefused(Exception):
    """A round that is not run, and leaves its session as it was; the message says why.

    RoundRefused
    ├── BadRound       breaks a rule of the protocol
    ├── OutOfOrder     older than the session's last round
    ├── TooLong        more tokens than a session may hold
    └── Diverged       the verifier does not hold the prefix that the device builds on
    """

    code: ErrorCode = "bad_request"


class BadRound(RoundRefused):
    """Breaks a rule of the protocol."""


class OutOfOrder(RoundRefused):
    """Older than the session's last round."""

    code = "out_of_order"


class TooLong(RoundRefused):
    """More tokens than a session may hold."""

    code = "too_long"


class Diverged(RoundRefused):
    """The verifier does not hold the prefix that the device builds on; `conflict` tells what it has."""

    def __init__(self, conflict: Conflict) -> None:
        super().__init__("the verifier holds other tokens")
        self.conflict = conflict


@dataclass
class Counters:
    """What has happened since the start; names are those of the metrics page."""

    rounds: int = 0
    replays: int = 0
    conflicts: int = 0
    evictions: int = 0
    prompt_tokens: int = 0
    drafted_nodes: int = 0
    accepted_nodes: int = 0
    new_tokens: int = 0
    memory_tokens: int = 0


@dataclass(frozen=True)
class Reply:
    """A round's verdict, and the spans of tokens whose memory follows it, newest first."""

    verdict: Verdict
    spans: tuple[tuple[int, int], ...]
    context: Context
    rewinds: int


@dataclass
class Session:
    context: Context
    digest: RunningDigest = field(default_factory=RunningDigest)
    last: Reply | None = None

    def conflict(self) -> Conflict:
        """Ever sparser prefixes, so that the device finds a common one within a factor of two of the tail it lacks."""
        length = len(self.digest)
        lengths = {length, 0} | {length - (1 << power) for power in range(length.bit_length()) if 1 << power <= length}
        return Conflict(have=tuple((at, self.digest.at(at)) for at in sorted(lengths, reverse=True)))


class Sessions:
    """The table of sessions, least recently used first to go.

    At most `max_sessions`, and at most `max_cached_tokens` tokens in all of them together (slabs grow by half, so their
    memory is at most half as much again). Times in a verdict are left at 0 for the caller to fill in.
    """

    def __init__(
        self, engine: Engine, limits: Limits, stop_tokens: frozenset[int], *, max_sessions: int, max_cached_tokens: int
    ) -> None:
        self.engine, self.limits, self.stop_tokens = engine, limits, stop_tokens
        self.max_sessions = max_sessions
        self.max_cached_tokens = max(max_cached_tokens, limits.max_tokens + limits.max_nodes)
        self.counters = Counters()
        self._table: OrderedDict[str, Session] = OrderedDict()

    def __len__(self) -> int:
        return len(self._table)

    @property
    def cached_tokens(self) -> int:
        return sum(len(session.context.tokens) for session in list(self._table.values()))

    def round(self, message: Round) -> Reply:
        """Append, verify and commit. Raises `RoundRefused`, or `EngineError` where the target itself fails."""
        session = self._table.get(message.session)
        if session is not None and session.last is not None:
            last = session.last.verdict.round
            if message.round == last:
                self.counters.replays += 1
                self._table.move_to_end(message.session)
                return session.last
            if message.round < last:
                raise OutOfOrder(f"round {message.round} comes after round {last}; start from a fresh session")
        append, tree = self._read(message)
        known = session or Session(self.engine.context())
        if message.base > len(known.digest) or known.digest.at(message.base) != message.digest:
            self.counters.conflicts += 1
            raise Diverged(known.conflict())
        length = message.base + len(append)
        room = self.limits.max_tokens - length
        if length == 0:
            raise BadRound("a round needs at least one committed token to go on from")
        if room < 1:
            raise TooLong(f"{length} tokens leave no room for an answer; a session holds {self.limits.max_tokens}")
        self._table[message.session] = known
        self._table.move_to_end(message.session)
        self._make_room(length + len(tree))
        return self._run(known, message, append, tree, room)

    def _run(self, session: Session, message: Round, append: list[int], tree: DraftTree, room: int) -> Reply:
        context = session.context
        length = message.base + len(append)
        self.counters.prompt_tokens += len(append)
        context.assign(message.base, append)
        session.digest.truncate(message.base)
        session.digest.extend(append)
        shallow, nodes = _at_most(tree, room - 1)
        logits = self.engine.verify(context, shallow)
        choose = chooser(logits, message.sampling, shallow)
        result = walk(shallow, choose, position=length, room=room, stop_tokens=self.stop_tokens)
        new = context.commit(shallow, result.accepted, result.bonus)
        session.digest.extend(new)
        verdict = Verdict(
            round=message.round,
            accepted=tuple(int(nodes[node]) for node in result.accepted),
            bonus=result.bonus,
            length=len(context.tokens),
            digest=session.digest.at(len(context.tokens)),
            finished=context.tokens[-1] in self.stop_tokens or len(context.tokens) >= self.limits.max_tokens,
            server_seconds=0.0,
        )
        spans = _spans(message.memory_from, context.computed) if self.engine.encoder is not None else ()
        session.last = Reply(verdict, spans, context, context.rewinds)
        self.counters.rounds += 1
        self.counters.drafted_nodes += len(tree)
        self.counters.accepted_nodes += len(result.accepted)
        self.counters.new_tokens += len(new)
        return session.last

    def memory(self, reply: Reply, index: int) -> Memory | None:
        """The reply's memory frame `index`; None at the end, or once the session has been rewound or dropped."""
        encoder = self.engine.encoder
        if encoder is None or index >= len(reply.spans) or reply.context.rewinds != reply.rewinds:
            return None
        start, end = reply.spans[index]
        self.counters.memory_tokens += end - start
        data = self.engine.memory(reply.context, start, end)
        return Memory(digest=encoder.digest, start=start, count=end - start, data=data)

    def drop(self, name: str) -> bool:
        """Forget a session; False where there is none."""
        session = self._table.pop(name, None)
        if session is not None:
            session.context.release()
        return session is not None

    def _read(self, message: Round) -> tuple[list[int], DraftTree]:
        try:
            append, tree = unpack_tokens(message.append), message.tree.unpack(self.limits)
            self.engine.check(append)
            self.engine.check(tree.tokens)
            for candidates in (tree.candidates or {}).values():
                self.engine.check(candidates.tokens)
        except (ProtocolError, UnknownToken) as error:
            raise BadRound(str(error)) from error
        return append, tree

    def _make_room(self, wanted: int) -> None:
        """Drop the sessions used longest ago until the current one, the last of the table, fits."""
        current = next(reversed(self._table))
        while len(self._table) > 1:
            others = self.cached_tokens - len(self._table[current].context.tokens)
            if len(self._table) <= self.max_sessions and others + wanted <= self.max_cached_tokens:
                break
            self.counters.evictions += 1
            self.drop(next(iter(self._table)))


def _at_most(tree: DraftTree, depth: int) -> tuple[DraftTree, np.ndarray]:
    """The tree's nodes down to `depth`, and for each its index in the whole tree.

    Deeper ones could not be accepted any more, and their positions may lie beyond those the target was made for.
    """
    nodes = np.flatnonzero(tree.depths() <= depth)
    if len(nodes) == len(tree):
        return tree, nodes
    place = np.full(len(tree) + 1, -1)
    place[nodes] = np.arange(len(nodes))
    parents, candidates = tree.parents[nodes], tree.candidates
    if candidates is not None:
        candidates = {int(place[parent]): candidates[parent] for parent in np.unique(parents).tolist()}
    return DraftTree(tree.tokens[nodes], place[parents], candidates=candidates), nodes


def _spans(start: int | None, end: int) -> tuple[tuple[int, int], ...]:
    """`start .. end` in pieces of at most a frame, newest first."""
    if start is None:
        return ()
    return tuple((max(start, stop - FRAME_TOKENS), stop) for stop in range(end, start, -FRAME_TOKENS))
