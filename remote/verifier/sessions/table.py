"""The verifier's table of sessions: how much memory each holds, and which idle ones are dropped if memory is short.

A session that runs is never dropped for another, unless its device is away. If no other is left to drop, a new one is
refused. The table belongs to the engine's thread; only counts may be read elsewhere.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from models.engines.engine import TargetContext, slab_rows
from models.tree import DraftTree
from remote.protocol import Conflict, Likeliest, RunningDigest, Verdict
from remote.verifier.drafting.lookups import Lookups
from remote.verifier.holders import EVERYONE
from remote.verifier.learning.trail import Trail
from remote.verifier.refusals import Overloaded, TooLong

HOST_BYTES = 140
"""Bytes of a committed token besides keys and values: its id and its digest as Python objects (measured: 133)."""


@dataclass(frozen=True)
class RoundResult:
    """The verdict of a round, and what follows it: spans of tokens with memory, newest first, and distributions."""

    verdict: Verdict
    spans: tuple[tuple[int, int], ...]
    likeliest: Likeliest | None
    """A few hundred bytes: at most 50 for each level of the tree and for 8 times as many nodes."""
    rewinds: int


@dataclass
class Session:
    context: TargetContext
    digest: RunningDigest = field(default_factory=RunningDigest)
    number: int = -1
    """Number of the last round or stream."""
    epoch: int = 0
    """Grows with each round or stream that changes the tokens."""
    last: RoundResult | None = None
    """The result of the last round. None after a stream."""
    drafts: Lookups | None = None
    """The verifier's own drafts. None if it has made none here."""
    holder: str = EVERYONE
    """Its holder."""
    trail: Trail | None = None
    """Its trail to learn from, or None if nothing learns."""
    tree: DraftTree = field(default_factory=DraftTree.empty)
    """The nodes whose rows follow those of the tokens, where proposals are made."""
    running: int = 0
    """Rounds and streams that are running."""
    computing: bool = False
    """Whether a forward for it is on its way."""
    reserved: int = 0
    """Rows that the running ones may need."""
    over: bool = False
    """Whether nobody continues it; only its rows are of use."""

    @contextmanager
    def held(self) -> Iterator[None]:
        """While the block runs, the session cannot be dropped for another."""
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1
            if not self.running:
                self.reserved = 0

    @contextmanager
    def forwarding(self) -> Iterator[None]:
        """While the block runs, the session cannot be dropped even if its device is away."""
        self.computing = True
        try:
            yield
        finally:
            self.computing = False

    def take_over(self, other: Session) -> None:
        """Continue with the rows of another session that is over. llama.cpp copies rows slowly."""
        tokens = self.context.tokens
        self.context, other.context = other.context, self.context
        self.context.assign(0, tokens)
        other.context.release()

    def conflict(self) -> Conflict:
        """Digests of prefixes at growing distances.

        The device finds a common one within a factor of two of the tail that it lacks.
        """
        length = len(self.digest)
        lengths = {length, 0} | {length - (1 << power) for power in range(length.bit_length()) if 1 << power <= length}
        return Conflict(have=tuple((at, self.digest.at(at)) for at in sorted(lengths, reverse=True)))


class Table:
    """The sessions: at most `max_sessions`, with at most `max_bytes` together, allocated rows included."""

    def __init__(self, bytes_per_token: int, *, max_sessions: int, max_bytes: int) -> None:
        """`bytes_per_token`: of the target's keys and values."""
        self.max_sessions, self.max_bytes = max_sessions, max_bytes
        self.evictions = 0
        self.away: set[str] = set()
        """Sessions with a stream that nobody reads now. They are dropped for others although they run. The event loop
        changes it."""
        self._row = bytes_per_token
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        """Least recently used first."""

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._sessions))

    def get(self, name: str) -> Session | None:
        return self._sessions.get(name)

    @property
    def running(self) -> int:
        return sum(session.running > 0 for session in list(self._sessions.values()))

    @property
    def tokens(self) -> int:
        return sum(len(session.context.tokens) for session in list(self._sessions.values()))

    @property
    def bytes(self) -> int:
        """Bytes that all sessions have allocated."""
        return sum(self._bytes(session) for session in list(self._sessions.values()))

    def admit(self, name: str, session: Session, rows: int) -> None:
        """Make room for a session with up to `rows` tokens and nodes, and make it the last one to be dropped.

        Idle sessions are dropped, least recently used first. If that is not enough, nothing is dropped and `Overloaded`
        is raised, or `TooLong` if the session would be too large even alone.
        """
        wanted = self._bytes(session, max(rows, session.reserved))
        if wanted > self.max_bytes:
            raise TooLong(f"{rows} tokens take {wanted >> 20} MB; this server keeps {self.max_bytes >> 20} MB")
        others = {other: self._bytes(held, held.reserved) for other, held in self._sessions.items() if other != name}
        held, leaving = sum(others.values()), list[str]()
        idle = (other for other in others if self._is_idle(other))
        while len(others) - len(leaving) >= self.max_sessions or held + wanted > self.max_bytes:
            other = next(idle, None)
            if other is None:
                raise Overloaded(f"{self.running} sessions run and leave no room for another. Try again in a moment.")
            leaving.append(other)
            held -= others[other]
        for other in leaving:
            self.drop(other)
        self.evictions += len(leaving)
        session.reserved = max(rows, session.reserved)
        self.touch(name, session)

    def _is_idle(self, name: str) -> bool:
        """Whether a session may be dropped for another."""
        session = self._sessions[name]
        return not session.running or (name in self.away and not session.computing)

    def begins_like(self, session: Session) -> tuple[Session | None, int]:
        """The other session of the same holder whose computed tokens agree longest with this one's, and how many do.

        Never another holder's: how soon an answer begins would reveal what others have asked.
        """
        best, longest = None, 0
        for other in self._sessions.values():
            most = min(other.context.computed, len(other.digest), len(session.digest))
            if other is session or other.holder != session.holder or most <= longest:
                continue
            # Prefixes agree up to some length, and no longer ones do, so a binary search finds it.
            agreed = bisect_right(
                range(1, most + 1), False, key=lambda at: other.digest.at(at) != session.digest.at(at)
            )
            if agreed > longest:
                best, longest = other, agreed
        return best, longest

    def touch(self, name: str, session: Session) -> None:
        """Make a session the last one to be dropped."""
        self._sessions[name] = session
        self._sessions.move_to_end(name)

    def drop(self, name: str) -> bool:
        """Forget a session. Returns False if there is none with that name."""
        session = self._sessions.pop(name, None)
        if session is not None:
            session.context.release()
            session.drafts = None
        return session is not None

    def largest(self, session: Session, most: int) -> int:
        """The largest number of rows, up to `most`, with which the session would fit alone."""
        return bisect_right(range(1, most + 1), self.max_bytes, key=lambda rows: self._bytes(session, rows))

    def _bytes(self, session: Session, rows: int = 0) -> int:
        """Bytes that a session has allocated, or would have with this many rows."""
        capacity = session.context.capacity
        target = capacity if rows <= capacity else slab_rows(rows)
        own = 0 if session.drafts is None else session.drafts.nbytes(rows)
        return target * self._row + own + HOST_BYTES * max(rows, len(session.context.tokens))
