"""The verifier's sessions: rounds and streams, cut into turns.

In a round the device drafts. In a stream the verifier also drafts, with the drafter that its memory is for. Both are
generators. Each yield ends a turn: first for chunks of the prompt (None), then for a verdict or one round of a stream,
then for a frame of memory or of what the target might have said. So nobody waits for the whole of another client's long
prompt. Within a turn they may yield a `Forward`, and are sent its result: `turns.py` runs the forwards of many sessions
together. A generator that is closed half-way leaves its session intact, with what was computed so far.

Everything belongs to one thread, the engine's, and a session has one turn at a time, so a turn needs no lock. This
module uses the messages of the protocol, but not HTTP. Memory is computed on demand from the session's slab. As long as
no later round has touched the slab, a repeated round gives the same bytes again, and no copy is kept.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import NamedTuple

from models.engines.engine import Engine, TargetContext, UnknownToken
from models.tree import DraftTree
from remote.protocol import (
    MOST_REJECTED,
    Likeliest,
    Limits,
    Memory,
    Progress,
    ProtocolError,
    Round,
    Stream,
    Verdict,
    pack_tokens,
    unpack_tokens,
)
from remote.verifier.drafting.lookups import BOUNDS, Lookups, OwnLookups
from remote.verifier.drafting.own_drafter import OwnDrafts
from remote.verifier.drafting.pruner import Pruner
from remote.verifier.drafting.stream_payoff import Judged
from remote.verifier.holders import EVERYONE
from remote.verifier.learning.learning import Learning
from remote.verifier.observability.record import Record, current
from remote.verifier.refusals import BadRound, Dropped, OutOfOrder, Overloaded, Superseded, TooLong, UnknownPrefix
from remote.verifier.sessions.answer_options import AnswerOptions
from remote.verifier.sessions.counters import Counters
from remote.verifier.sessions.table import RoundResult, Session, Table
from remote.verifier.sessions.verification import Answer, Computing, verify

FRAME_TOKENS = 64
"""Tokens of memory in one frame: few enough that another session's round never waits long for one."""
HELD_TOKENS = 32
"""Tokens whose memory a stream sends together if it does not use the memory itself. One by one, they take four times as
long."""
SHORTEST_SHARED = 16
"""Common first tokens that two sessions need for one to take over the other's rows."""
LONGEST_LEFT = 16
"""Computed tokens that a session which nobody continues may lose when its rows are moved instead of copied."""
STREAM_ROWS = 1024
"""Future tokens of a stream for which room is reserved at its beginning; later as many again, if there is room."""


class Sessions:
    """Rounds and streams on one engine. The seconds in a verdict are 0 here; `Turns.first` fills them in."""

    def __init__(
        self,
        engine: Engine,
        limits: Limits,
        stop_tokens: frozenset[int],
        *,
        max_sessions: int,
        max_bytes: int,
        own: OwnLookups | None = None,
        learning: Learning | None = None,
    ) -> None:
        """`own`: makes the drafts of streams, or None for no drafts.

        `learning`: has the drafter learn from the answers.
        """
        self.engine, self.limits, self.stop_tokens, self.own = engine, limits, stop_tokens, own
        self.learning = learning
        self.table = Table(engine.bytes_per_token, max_sessions=max_sessions, max_bytes=max_bytes)
        self.counters = Counters()
        self.pruner = Pruner()

    def round(self, message: Round, holder: str = EVERYONE) -> Answer:
        """Append, verify and commit, then send memory. The memory ends early if its tokens are gone.

        `holder`: whose round it is. Raises `RoundRefused`, or `EngineError` if the target itself fails.
        """
        return self._round(message, holder, _in_line())

    def _round(self, message: Round, holder: str, record: Record) -> Answer:
        record.began()
        session = self.table.get(message.session)
        if session is not None and session.last is not None and message.round == session.number:
            self.counters.replays += 1
            self.table.touch(message.session, session)
        else:
            tree = _tree(self.engine, message, self.limits)
            session, append, room = self._opened(message, len(tree))
            with session.held():
                claim = self._append(session, message, append, holder, record)
                yield from self._read(claim)
                session.last = yield from self._judged(session, message, tree, room, record)
                session.number = message.round
        reply = session.last
        assert reply is not None
        with session.held():
            yield reply.verdict
            for start, end in reply.spans:
                if session.context.rewinds != reply.rewinds:
                    return
                frame = self._frame(session, start, end)
                self.counters.memory_tokens += frame.count
                yield frame
            if reply.likeliest is not None:
                yield reply.likeliest

    def stream(
        self, message: Stream, holder: str = EVERYONE, options: AnswerOptions | None = None, *, again: bool = False
    ) -> Answer:
        """Append, then draft, verify and commit round by round until the answer is complete.

        `again`: the request has other answers to the same prompt, and the prompt is counted for one of them.

        It ends early, without an error, if a newer round or stream has changed the session. Raises `RoundRefused`
        before the first frame, and `Dropped` after it if the session was dropped or memory is full. Raises any
        `EngineError`.
        """
        return self._stream(message, holder, options or AnswerOptions(), again, _in_line())

    def _stream(self, message: Stream, holder: str, options: AnswerOptions, again: bool, record: Record) -> Answer:
        record.began()
        own = self._drafter(holder) if message.draft else None
        nodes = BOUNDS.nodes if own is not None else options.nodes
        session, append, room = self._opened(message, nodes + min(message.most, STREAM_ROWS), own)
        with session.held():
            claim = self._append(session, message, append, holder, None if again else record)
            session.number, session.last = message.round, None
            self.counters.streams += 1
            yield from self._read(claim)
            drafts = session.drafts if own is not None else None
            if drafts is not None:
                drafts.begin(session.context.tokens)
            end = len(session.context.tokens) + min(message.most, room)
            with suppress(Superseded):
                yield from self._written(claim, message, drafts, end, options, record)

    def _written(
        self, claim: _Claim, message: Stream, drafts: Lookups | None, end: int, options: AnswerOptions, record: Record
    ) -> Answer:
        """The rounds of a stream, until there are `end` tokens. Raises `Superseded`, `Dropped`."""
        session, context, memory_from = claim.session, claim.session.context, message.memory_from
        # Memory of a long prompt, one frame after each round, so that no word waits for all of it.
        owed = list[Memory]()
        tree, using = _expected(self.engine, options), None  # The first token waits for no draft of the drafter.
        while True:
            begun = time.monotonic()
            if message.session in self.table.away:
                memory_from = None  # Nobody would get it.
                owed.clear()
            pending, room = len(context.tokens) - context.computed, end - len(context.tokens)
            if using is not None:
                while using.read():
                    yield None
                    claim.check()
                tree = using.draft(message.sampling)
            remembered = None if drafts is None else drafts.remembered
            judged, said = yield from self._verify(
                session, tree, message, room, remembered, record, rejected=0, options=options
            )
            if drafts is not None:
                drafts.judged(tree, judged, message.sampling.temperature == 0, pending)
            tree, using = self._next_draft(context, drafts, options)
            progress = self._progress(session, judged, begun)
            yield progress
            over = progress.finished or progress.length >= end
            few = memory_from is not None and context.computed - memory_from < HELD_TOKENS
            if over or using is not None or not few:
                yield from self._remember(claim, memory_from, using, owed)
                memory_from = None if memory_from is None else max(memory_from, context.computed)
            if said is not None:
                yield said
            if over:
                self._ended(session)
                yield from owed
                return
            if owed:
                yield owed.pop(0)
            claim.check()
            nodes = BOUNDS.nodes if drafts is not None else options.nodes
            self._keep(session, message.session, progress.length + 1 + nodes, end)

    def _next_draft(
        self, context: TargetContext, drafts: Lookups | None, options: AnswerOptions
    ) -> tuple[DraftTree, OwnDrafts | None]:
        """The next draft if one can be looked up, or else the drafter if a draft by it would pay off."""
        tree = _expected(self.engine, options)
        if drafts is None:
            return tree, None
        tree = tree if len(tree) else drafts.looked_up()
        if len(tree) or not isinstance(drafts, OwnDrafts) or not drafts.pays(len(context.tokens)):
            return tree, None
        drafts.follow(context.tokens)
        return tree, drafts

    def _progress(self, session: Session, judged: Judged, begun: float) -> Progress:
        length = len(session.context.tokens)
        return Progress(
            tokens=pack_tokens(judged.new),
            drafted=len(judged.accepted),
            length=length,
            digest=session.digest.at(length),
            finished=self._finished(session.context),
            server_seconds=time.monotonic() - begun,
        )

    def _remember(self, claim: _Claim, memory_from: int | None, using: OwnDrafts | None, owed: list[Memory]) -> Answer:
        """Compute memory after a stream's round, newest first, for the device and for the verifier's own drafter.

        The newest frame is sent at once. Older ones that are to be sent are added to `owed`.
        """
        if self.engine.encoder is None:
            return
        computed = claim.session.context.computed
        asked = computed if memory_from is None else min(memory_from, computed)
        mine = () if using is None else _spans(using.remembered, asked)
        for start, stop in (*_spans(asked, computed), *mine):
            claim.check()
            begun = time.monotonic()
            frame = self._frame(claim.session, start, stop)
            if using is not None:
                using.remember(start, frame.count, frame.data)
                using.spent(time.monotonic() - begun)
            sent = start >= asked
            self.counters.memory_tokens += frame.count if sent else 0
            yield frame if sent and stop == computed else None
            if sent and stop < computed:
                owed.append(frame)

    def _keep(self, session: Session, name: str, rows: int, end: int) -> None:
        """Reserve room for the next round of a stream that may reach `end` tokens. Raises `Dropped`."""
        if rows <= session.reserved:
            self.table.touch(name, session)
            return
        for wanted in (min(rows + STREAM_ROWS, rows + max(0, end - len(session.context.tokens))), rows):
            try:
                self.table.admit(name, session, wanted)
                return
            except (Overloaded, TooLong):
                continue
        raise Dropped("the server's memory is full, so this stream ends here; continue from what it sent, in a moment")

    def _read(self, claim: _Claim) -> Computing[None]:
        """Read the prompt except for its last chunk. Raises `Superseded`, `Dropped`."""
        while (chunk := self.engine.next_chunk(claim.session.context)) is not None:
            with claim.session.forwarding():
                yield chunk
            yield None
            claim.check()

    def _opened(
        self, message: Round | Stream, more: int, own: OwnLookups | None = None
    ) -> tuple[Session, list[int], int]:
        """The session that a message continues, the tokens to append, and how many more it may hold after them.

        `more`: rows to reserve in addition to these tokens. `own`: what the verifier drafts with.
        """
        session = self.table.get(message.session)
        if session is not None and message.round <= session.number:
            raise OutOfOrder(f"round {message.round} comes after round {session.number}; start from a fresh session")
        append = _tokens(self.engine, message)
        known = session or Session(self.engine.context())
        if message.base > len(known.digest) or known.digest.at(message.base) != message.digest:
            self.counters.conflicts += 1
            raise UnknownPrefix(known.conflict())
        length = message.base + len(append)
        room = self.limits.max_tokens - length
        if length == 0:
            raise BadRound("a round needs at least one committed token to continue from")
        if room < 1:
            raise TooLong(f"{length} tokens leave no room for an answer; a session holds {self.limits.max_tokens}")
        if own is not None:
            known.drafts = known.drafts or own.drafts()
        self.table.admit(message.session, known, length + min(more, room + BOUNDS.nodes))
        return known, append, room

    def _judged(
        self, session: Session, message: Round, tree: DraftTree, room: int, record: Record
    ) -> Computing[RoundResult]:
        context = session.context
        judged, said = yield from self._verify(
            session, tree, message, room, message.memory_from, record, rejected=MOST_REJECTED
        )
        verdict = Verdict(
            round=message.round,
            accepted=judged.accepted,
            bonus=judged.bonus,
            length=len(context.tokens),
            digest=session.digest.at(len(context.tokens)),
            finished=self._finished(context),
            server_seconds=0.0,
        )
        if verdict.finished:
            self._ended(session)
        spans = _spans(message.memory_from, context.computed) if self.engine.encoder is not None else ()
        self.counters.rounds += 1
        return RoundResult(verdict, spans, said, context.rewinds)

    def _append(
        self, session: Session, message: Round | Stream, append: list[int], holder: str, record: Record | None
    ) -> _Claim:
        """Append the tokens. Anything running in the session ends at its next check.

        `record`: of the request that the tokens count for, or None if they are counted already.
        """
        if self.learning is not None:
            session.trail = session.trail or self.learning.recorder.began(holder)
            self.learning.recorder.went_on(session.trail, session.context.tokens, message.base, append)
        session.epoch, session.tree = session.epoch + 1, DraftTree.empty()
        if record is not None:
            self.counters.prompt_tokens += len(append)
            record.read(len(append))
        session.context.assign(message.base, append)
        session.digest.truncate(message.base)
        session.digest.extend(append)
        session.holder = holder
        self.share(session, counted=record is not None)
        return _Claim(self.table, message.session, session, session.epoch)

    def share(self, session: Session, *, counted: bool = True) -> None:
        """Take over rows of another session that begins with the same tokens, if none is computed yet."""
        if not session.context.computed:
            other, agreed = self.table.begins_like(session)
            if other is not None and agreed >= SHORTEST_SHARED:
                if other.over and other.context.computed - agreed <= LONGEST_LEFT:
                    session.take_over(other)
                else:
                    session.context.adopt(other.context, agreed)
                self.counters.shared_tokens += session.context.computed if counted else 0

    def _finished(self, context: TargetContext) -> bool:
        return context.tokens[-1] in self.stop_tokens or len(context.tokens) >= self.limits.max_tokens

    def _verify(
        self,
        session: Session,
        tree: DraftTree,
        message: Round | Stream,
        room: int,
        remembered: int | None,
        record: Record,
        *,
        rejected: int,
        options: AnswerOptions | None = None,
    ) -> Computing[tuple[Judged, Likeliest | None]]:
        """Verify and commit at most `room` tokens. `rejected`: maximum number of rejected nodes with distributions.

        `remembered`: how many tokens, from the first on, had memory when the tree was drafted, or None without a tree.
        """
        begun, context = time.monotonic(), session.context
        pending = len(context.tokens) - context.computed
        # The verifier sizes its own drafts with all sessions in mind.
        kept = self.pruner.kept(message.session, tree) if isinstance(message, Round) else None
        with session.forwarding():
            verified = yield from verify(session, tree, message.sampling, room, self.stop_tokens, options, kept)
        judged = verified.judged
        self.pruner.ran(message.session, judged, pending)
        if isinstance(message, Round) and tree.candidates is None:
            self.pruner.chances.learn(tree, judged.accepted, judged.bonus)
        self.counters.verified(len(tree), len(judged.accepted), len(judged.new))
        self.counters.pruned_nodes += 0 if kept is None else len(tree) - int(kept.sum())
        record.wrote(len(judged.new), time.monotonic() - begun, len(context.tokens), self._finished(context))
        if session.trail is not None and self.learning is not None and remembered is not None:
            self.learning.recorder.gained(session.trail, remembered, verified)
        return judged, verified.likeliest(message.likeliest, rejected) if message.likeliest else None

    def _frame(self, session: Session, start: int, end: int) -> Memory:
        assert self.engine.encoder is not None
        data = self.engine.memory(session.context, start, end)
        if session.trail is not None and self.learning is not None:
            self.learning.recorder.remembered(session.trail, start, end - start, data)
        return Memory(digest=self.engine.encoder.config.memory_digest, start=start, count=end - start, data=data)

    def _drafter(self, holder: str) -> OwnLookups | None:
        """The drafter for a holder's streams."""
        return self.own if self.learning is None else self.learning.drafter(holder)

    def _ended(self, session: Session) -> None:
        if session.trail is not None and self.learning is not None:
            self.learning.recorder.ended(session.trail, session.context.tokens)

    def rest(self, name: str) -> None:
        """Keep a session only for others with the same beginning: nobody continues it."""
        if (session := self.table.get(name)) is not None:
            self._ended(session)
            session.drafts, session.over = None, True

    def drop(self, name: str) -> bool:
        """Forget a session. Returns False if there is none with that name."""
        if (session := self.table.get(name)) is not None:
            self._ended(session)
        return self.table.drop(name)


def _tokens(engine: Engine, message: Round | Stream) -> list[int]:
    """Read the tokens to append. Raises `BadRound`."""
    try:
        append = unpack_tokens(message.append)
        engine.check(append)
    except (ProtocolError, UnknownToken) as error:
        raise BadRound(str(error)) from error
    return append


def _tree(engine: Engine, message: Round, limits: Limits) -> DraftTree:
    """Read the device's draft. Raises `BadRound`."""
    try:
        tree = message.tree.unpack(limits)
        engine.check(tree.tokens)
        for candidates in (tree.candidates or {}).values():
            engine.check(candidates.tokens)
    except (ProtocolError, UnknownToken) as error:
        raise BadRound(str(error)) from error
    return tree


def _expected(engine: Engine, options: AnswerOptions) -> DraftTree:
    """What an answer's options expect next, as a draft; often empty."""
    tokens = options.draft()[: engine.most_nodes] if engine.takes_drafts else ()
    return DraftTree.chain(list(tokens)) if tokens else DraftTree.empty()


class _Claim(NamedTuple):
    """A round or stream that runs in a session."""

    table: Table
    name: str
    session: Session
    epoch: int

    def check(self) -> None:
        """Raise `Superseded` if a newer one has changed the session, and `Dropped` if the session is gone."""
        if self.table.get(self.name) is not self.session:
            raise Dropped("the session was dropped while it ran; ask again to start a new one")
        if self.session.epoch != self.epoch:
            raise Superseded("a newer round of this session has taken the place of this one")


def _in_line() -> Record:
    """The record of the current request, which begins to wait for the engine."""
    record = current()
    record.queued()
    return record


def _spans(start: int | None, end: int) -> tuple[tuple[int, int], ...]:
    """Cut `start .. end` into pieces of at most a frame, newest first."""
    if start is None:
        return ()
    return tuple((max(start, stop - FRAME_TOKENS), stop) for stop in range(end, start, -FRAME_TOKENS))
