"""The verifier's table of sessions: what each of them holds in memory, and which idle ones leave when memory is short.

A session that runs is never dropped for another. Where only such ones are left, a newcomer is refused.

Belongs to the engine's thread, but for what only counts.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from remote.protocol import Conflict, RunningDigest, Verdict
from remote.verifier.engine import TargetContext, slab_rows
from remote.verifier.hosted import OwnDrafts
from remote.verifier.refusals import Overloaded, TooLong

HOST_BYTES = 140
"""Of a committed token, beside keys and values: its number and its digest, as Python holds them (measured: 133)."""


@dataclass(frozen=True)
class RoundResult:
    """A round's verdict, and the spans of tokens whose memory follows it, newest first."""

    verdict: Verdict
    spans: tuple[tuple[int, int], ...]
    rewinds: int


@dataclass
class Session:
    context: TargetContext
    digest: RunningDigest = field(default_factory=RunningDigest)
    number: int = -1
    """Of the last round or stream."""
    epoch: int = 0
    """Grows with each round or stream that changes the tokens."""
    last: RoundResult | None = None
    """What the last round gave; None after a stream."""
    drafts: OwnDrafts | None = None
    """Where the verifier has drafted by itself."""
    running: int = 0
    """Rounds and streams on their way."""
    reserved: int = 0
    """Rows that those on their way may come to need."""

    @contextmanager
    def held(self) -> Iterator[None]:
        """Runs, and cannot be dropped for another session."""
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1
            if not self.running:
                self.reserved = 0

    def conflict(self) -> Conflict:
        """Ever sparser prefixes, so that the device finds a common one within a factor of two of the tail it lacks."""
        length = len(self.digest)
        lengths = {length, 0} | {length - (1 << power) for power in range(length.bit_length()) if 1 << power <= length}
        return Conflict(have=tuple((at, self.digest.at(at)) for at in sorted(lengths, reverse=True)))


class Table:
    """At most `max_sessions`, which hold at most `max_bytes` together: allocated, used or not."""

    def __init__(self, bytes_per_token: int, *, max_sessions: int, max_bytes: int) -> None:
        """`bytes_per_token`: of the target's keys and values."""
        self.max_sessions, self.max_bytes = max_sessions, max_bytes
        self.evictions = 0
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
        """What all sessions have allocated."""
        return sum(self._bytes(session) for session in list(self._sessions.values()))

    def admit(self, name: str, session: Session, rows: int) -> None:
        """Make room for a session that will hold up to `rows` tokens and nodes, and put it last to leave.

        Drops idle sessions, those used longest ago first. Where that would not be enough nothing is dropped, and
        `Overloaded` is raised; `TooLong` where it would be too much for the verifier even alone.
        """
        wanted = self._bytes(session, max(rows, session.reserved))
        if wanted > self.max_bytes:
            raise TooLong(f"{rows} tokens take {wanted >> 20} MB; this verifier keeps {self.max_bytes >> 20} MB")
        others = {other: self._bytes(held, held.reserved) for other, held in self._sessions.items() if other != name}
        held, leaving = sum(others.values()), list[str]()
        idle = (other for other in others if not self._sessions[other].running)
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

    def touch(self, name: str, session: Session) -> None:
        """Put a session last to leave."""
        self._sessions[name] = session
        self._sessions.move_to_end(name)

    def drop(self, name: str) -> bool:
        """Forget a session; False where there is none."""
        session = self._sessions.pop(name, None)
        if session is not None:
            session.context.release()
            session.drafts = None
        return session is not None

    def largest(self, session: Session, most: int) -> int:
        """Rows up to `most` of a session that would fit alone."""
        return bisect_right(range(1, most + 1), self.max_bytes, key=lambda rows: self._bytes(session, rows))

    def _bytes(self, session: Session, rows: int = 0) -> int:
        """What a session has allocated, or would have with so many rows."""
        capacity = session.context.capacity
        target = capacity if rows <= capacity else slab_rows(rows)
        own = 0 if session.drafts is None else session.drafts.nbytes(rows)
        return target * self._row + own + HOST_BYTES * max(rows, len(session.context.tokens))
