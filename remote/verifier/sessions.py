"""The verifier's sessions: what is committed, which round came last, and who has to leave when memory is short.

In a round the device drafts; in a stream the verifier does it too, with the drafter that its memory is made for.

Belongs to one thread, the one that runs the engine: so a round is atomic, and no lock is needed. Knows the messages
but not HTTP. A reply's memory is computed on demand from the session's slab; as no later round has touched it, a
repeated round streams the same bytes again without a copy being kept.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from drafter.tree import DraftTree
from remote.protocol import (
    Conflict,
    ErrorCode,
    Limits,
    Memory,
    Progress,
    ProtocolError,
    Round,
    RunningDigest,
    Sampling,
    Stream,
    Verdict,
    pack_tokens,
    unpack_tokens,
)
from remote.verifier.acceptance import chooser, walk
from remote.verifier.engine import Context, Engine, UnknownToken
from remote.verifier.hosted import BOUNDS, OwnDrafter, OwnDrafts

FRAME_TOKENS = 64
"""Tokens of memory in one frame: small enough that another session's round never waits long behind one."""


class RoundRefused(Exception):
    """A round that is not run, and leaves its session as it was; the message says why.

    RoundRefused
    ├── BadRound       breaks a rule of the protocol
    ├── OutOfOrder     older than the session's last round
    ├── TooLong        more tokens than a session may hold
    ├── Dropped        a stream whose session was forgotten for others
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


class Dropped(RoundRefused):
    """A stream whose session was forgotten for others."""

    code = "unavailable"


class Diverged(RoundRefused):
    """The verifier does not hold the prefix that the device builds on; `conflict` tells what it has."""

    def __init__(self, conflict: Conflict) -> None:
        super().__init__("the verifier holds other tokens")
        self.conflict = conflict


@dataclass
class Counters:
    """What has happened since the start; names are those of the metrics page."""

    rounds: int = 0
    streams: int = 0
    forwards: int = 0
    """Of the target, one a round and one for each of a stream's own; a long prompt's earlier chunks come on top."""
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
    number: int = -1
    """Of the last round or stream."""
    epoch: int = 0
    """Grows with each round or stream that changes the tokens."""
    last: Reply | None = None
    """What the last round gave; None after a stream."""
    drafts: OwnDrafts | None = None
    """Where the verifier has drafted by itself."""

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
        self,
        engine: Engine,
        limits: Limits,
        stop_tokens: frozenset[int],
        *,
        max_sessions: int,
        max_cached_tokens: int,
        own: OwnDrafter | None = None,
    ) -> None:
        """`own`, whose drafter the engine's memory is for, makes the drafts of streams; without it they have none."""
        self.engine, self.limits, self.stop_tokens, self.own = engine, limits, stop_tokens, own
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
        if session is not None and session.last is not None and message.round == session.number:
            self.counters.replays += 1
            self._table.move_to_end(message.session)
            return session.last
        tree = self._tree(message)
        session, append, room = self._open(message, len(tree))
        return self._run(session, message, append, tree, room)

    def stream(self, message: Stream) -> Iterator[Progress | Memory | None]:
        """Append, then draft, verify and commit round by round until the answer is complete; each `next` is one call.

        None: a call whose result is the verifier's own affair. It ends early, and silently, where a newer round or
        stream changed the session; where the session was dropped it raises `Dropped`. The first `next` raises the
        other `RoundRefused`; any `EngineError`.
        """
        own = self.own if message.draft else None
        session, append, room = self._open(message, BOUNDS.nodes if own is not None else 0)
        self._append(session, message, append)
        session.number, session.last = message.round, None
        self.counters.streams += 1
        context, epoch, greedy = session.context, session.epoch, message.sampling.temperature == 0
        end, memory_from = len(context.tokens) + min(message.most, room), message.memory_from
        owed: list[Memory] = []  # A long prompt's: one after each round, so that no word waits for all of it.
        drafts = None
        if own is not None:
            drafts = session.drafts = session.drafts or own.drafts()
        while True:
            begun, tree = time.monotonic(), DraftTree.empty()
            if drafts is not None:
                drafts.follow(context.tokens)
                tree = drafts.draft(greedy)
            accepted, bonus, new = self._verify(session, tree, message.sampling, end - len(context.tokens))
            if drafts is not None:
                drafts.judged(tree, accepted, bonus, greedy)
                drafts.follow(context.tokens)
            length, finished = len(context.tokens), self._finished(context)
            yield Progress(
                tokens=pack_tokens(new),
                drafted=len(accepted),
                length=length,
                digest=session.digest.at(length),
                finished=finished,
                server_seconds=time.monotonic() - begun,
            )
            for start, stop, sent in self._stream_spans(context, memory_from, drafts):
                if not self._stands(session, message.session, epoch):
                    return
                frame = self._frame(context, start, stop)
                if drafts is not None:
                    drafts.remember(start, frame.count, frame.data)
                self.counters.memory_tokens += frame.count if sent else 0
                newest = sent and stop == context.computed
                yield frame if newest else None
                owed += [frame] if sent and not newest else []
            memory_from = None if memory_from is None else max(memory_from, context.computed)
            if finished or length >= end:
                yield from owed
                return
            if owed:
                yield owed.pop(0)
            if not self._stands(session, message.session, epoch):
                return
            self._table.move_to_end(message.session)
            self._make_room(length + 1 + (BOUNDS.nodes if own is not None else 0))

    def _stream_spans(
        self, context: Context, memory_from: int | None, drafts: OwnDrafts | None
    ) -> list[tuple[int, int, bool]]:
        """Whose memory is to be computed after a stream's round: (start, end, whether it is sent), newest first."""
        if self.engine.encoder is None:
            return []
        asked = context.computed if memory_from is None else min(memory_from, context.computed)
        sent = [(*span, True) for span in _spans(asked, context.computed)]
        return sent + ([] if drafts is None else [(*span, False) for span in _spans(drafts.remembered, asked)])

    def _stands(self, session: Session, name: str, epoch: int) -> bool:
        """Whether nobody has changed the session since. Raises `Dropped`."""
        if self._table.get(name) is not session:
            raise Dropped("the session was dropped while it was streamed; ask again, and it begins anew")
        return session.epoch == epoch

    def _open(self, message: Round | Stream, nodes: int) -> tuple[Session, list[int], int]:
        """The session that a message goes on with, the tokens to append, and how many more it may hold after them.

        `nodes`: how many the next draft may have.
        """
        session = self._table.get(message.session)
        if session is not None and message.round <= session.number:
            raise OutOfOrder(f"round {message.round} comes after round {session.number}; start from a fresh session")
        append = self._tokens(message)
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
        self._make_room(length + nodes)
        return known, append, room

    def _run(self, session: Session, message: Round, append: list[int], tree: DraftTree, room: int) -> Reply:
        context = session.context
        self._append(session, message, append)
        accepted, bonus, _ = self._verify(session, tree, message.sampling, room)
        verdict = Verdict(
            round=message.round,
            accepted=accepted,
            bonus=bonus,
            length=len(context.tokens),
            digest=session.digest.at(len(context.tokens)),
            finished=self._finished(context),
            server_seconds=0.0,
        )
        spans = _spans(message.memory_from, context.computed) if self.engine.encoder is not None else ()
        session.number, session.last = message.round, Reply(verdict, spans, context, context.rewinds)
        self.counters.rounds += 1
        return session.last

    def _append(self, session: Session, message: Round | Stream, append: list[int]) -> None:
        session.epoch += 1
        self.counters.prompt_tokens += len(append)
        session.context.assign(message.base, append)
        session.digest.truncate(message.base)
        session.digest.extend(append)

    def _finished(self, context: Context) -> bool:
        return context.tokens[-1] in self.stop_tokens or len(context.tokens) >= self.limits.max_tokens

    def _verify(
        self, session: Session, tree: DraftTree, sampling: Sampling, room: int
    ) -> tuple[tuple[int, ...], int | None, list[int]]:
        """Verify and commit: the accepted nodes, the bonus, and the new tokens, of which there are at most `room`."""
        context = session.context
        shallow, nodes = _at_most(tree, room - 1)
        logits = self.engine.verify(context, shallow)
        self.counters.forwards += 1
        choose = chooser(logits, sampling, shallow)
        result = walk(shallow, choose, position=len(context.tokens), room=room, stop_tokens=self.stop_tokens)
        new = context.commit(shallow, result.accepted, result.bonus)
        session.digest.extend(new)
        self.counters.drafted_nodes += len(tree)
        self.counters.accepted_nodes += len(result.accepted)
        self.counters.new_tokens += len(new)
        return tuple(int(nodes[node]) for node in result.accepted), result.bonus, new

    def memory(self, reply: Reply, index: int) -> Memory | None:
        """The reply's memory frame `index`; None at the end, or once the session has been rewound or dropped."""
        if self.engine.encoder is None or index >= len(reply.spans) or reply.context.rewinds != reply.rewinds:
            return None
        frame = self._frame(reply.context, *reply.spans[index])
        self.counters.memory_tokens += frame.count
        return frame

    def _frame(self, context: Context, start: int, end: int) -> Memory:
        assert self.engine.encoder is not None
        data = self.engine.memory(context, start, end)
        return Memory(digest=self.engine.encoder.digest, start=start, count=end - start, data=data)

    def drop(self, name: str) -> bool:
        """Forget a session; False where there is none."""
        session = self._table.pop(name, None)
        if session is not None:
            session.context.release()
        return session is not None

    def _tokens(self, message: Round | Stream) -> list[int]:
        try:
            append = unpack_tokens(message.append)
            self.engine.check(append)
        except (ProtocolError, UnknownToken) as error:
            raise BadRound(str(error)) from error
        return append

    def _tree(self, message: Round) -> DraftTree:
        try:
            tree = message.tree.unpack(self.limits)
            self.engine.check(tree.tokens)
            for candidates in (tree.candidates or {}).values():
                self.engine.check(candidates.tokens)
        except (ProtocolError, UnknownToken) as error:
            raise BadRound(str(error)) from error
        return tree

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
