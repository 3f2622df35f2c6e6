"""Session affinity: decides which of several replicas answers a session, so that its computed rows are found there.

Rendezvous hashing: every replica has a score for a session, and the highest one answers. Everybody computes the same
replica without a table of sessions. If a replica is added or removed, only its own sessions move.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import TypeVar

from remote.protocol import SESSION_HEADER

T = TypeVar("T")

SESSION_HEADERS = (SESSION_HEADER, "x-dynamo-session-id")
"""Headers that name a session, the most specific first: Outrider's own, and NVIDIA Dynamo's, which several agents send
to any OpenAI-compatible server."""
LONGEST_SESSION = 256
"""Characters of a session's name that are used."""


def session_of(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """The session that a request names in its headers, or None."""
    told = {name.lower(): value for name, value in headers}
    for header in SESSION_HEADERS:
        if session := told.get(header.encode(), b"").decode("latin-1").strip():
            return session
    return None


def ranked(session: str, replicas: Iterable[tuple[str, T]]) -> Sequence[T]:
    """The replicas in the order in which they should answer a session. Each is given with a stable name."""
    key = session[:LONGEST_SESSION].encode("utf-8", "surrogateescape")
    return [replica for _, replica in sorted(replicas, key=lambda named: _score(named[0], key), reverse=True)]


def _score(name: str, key: bytes) -> bytes:
    # A keyed hash, so that no two pairs of session and replica names concatenate to the same input.
    seed = hashlib.blake2b(name.encode(), digest_size=32).digest()
    return hashlib.blake2b(key, key=seed, digest_size=16).digest()
