"""Session affinity: which of several replicas answers a session, so that it finds its computed rows there.

Rendezvous hashing: every replica has a score for a session, and the highest one answers. Whoever computes it finds the
same replica, without a table of sessions. If a replica comes or goes, only the sessions that are its own change places.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import TypeVar

from remote.protocol import SESSION_HEADER

T = TypeVar("T")

SESSION_HEADERS = (SESSION_HEADER, "x-dynamo-session-id")
"""Headers that name a session, the most telling one first: Outrider's own, and the one of NVIDIA Dynamo, which several
agents send to any server of OpenAI's API."""
LONGEST_SESSION = 256
"""Characters of a session's name that count."""


def session_of(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """The session that a request names in its headers, or None."""
    told = {name.lower(): value for name, value in headers}
    for header in SESSION_HEADERS:
        if session := told.get(header.encode(), b"").decode("latin-1").strip():
            return session
    return None


def ranked(session: str, replicas: Iterable[tuple[str, T]]) -> Sequence[T]:
    """The replicas in the order in which they should answer a session, each given with a name that stays the same."""
    key = session[:LONGEST_SESSION].encode("utf-8", "surrogateescape")
    return [replica for _, replica in sorted(replicas, key=lambda named: _score(named[0], key), reverse=True)]


def _score(name: str, key: bytes) -> bytes:
    # A keyed hash, so that no name of a session can be joined with one of a replica in two ways.
    seed = hashlib.blake2b(name.encode(), digest_size=32).digest()
    return hashlib.blake2b(key, key=seed, digest_size=16).digest()
