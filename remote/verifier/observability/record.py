"""The record of one request: its times, its tokens, and the token holder it came from.

The event loop makes a record when a request arrives, and reads it when the answer has ended. Meanwhile the engine's
thread counts in it. No text is ever in a record.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextvars import ContextVar

from starlette.types import Scope

from remote.verifier.observability.metrics import Metrics

SCOPE = "outrider.record"
"""The key of a request's record in the ASGI scope."""


class Record:
    """One request and what its answer has taken."""

    def __init__(self, id: str = "", route: str = "", metrics: Metrics | None = None) -> None:
        """`id`: the name under which it is logged. `route`: the pattern of its path."""
        self.id, self.route, self._metrics = id, route, metrics
        self.arrived = self._queued = time.monotonic()
        self.holder: str | None = None
        """The holder of the token that it presented, or None."""
        self.prompt_tokens = 0
        self.new_tokens = 0
        self.length: int | None = None
        """Committed tokens of its session after the last round; None before the first."""
        self.finished = False
        """Whether the last round ended the answer."""
        self.at_end: list[Callable[[], None]] = []
        """Callbacks for when the answer has ended, in whatever way."""
        self._last: float | None = None
        """When the newest tokens were ready."""

    @property
    def tokens(self) -> int:
        """All its tokens, read and written."""
        return self.prompt_tokens + self.new_tokens

    def queued(self) -> None:
        """Note that it begins to wait for the engine."""
        self._queued = time.monotonic()

    def began(self) -> None:
        """Note that the engine begins with it."""
        if self._metrics is not None:
            self._metrics.waits.labels(self.route).observe(time.monotonic() - self._queued)

    def read(self, tokens: int) -> None:
        """Count tokens that were appended to its session."""
        self.prompt_tokens += tokens

    def wrote(self, tokens: int, seconds: float, length: int, finished: bool) -> None:
        """Count a round's tokens and seconds. Its session now has `length` tokens."""
        now = time.monotonic()
        self.new_tokens += tokens
        self.length, self.finished = length, finished
        if self._metrics is not None:
            rounds, first, further = self._metrics.pieces(self.route)
            rounds.observe(seconds)
            if self._last is None:
                first.observe(now - self.arrived)
            else:
                further.observe(now - self._last)
        self._last = now

    def end(self) -> None:
        """Do what is left for the end."""
        while self.at_end:
            self.at_end.pop()()


CURRENT: ContextVar[Record] = ContextVar("record")
"""Holds the request that the current task answers."""


def current() -> Record:
    """The record of the request that the current task answers; outside of a request, one that is discarded."""
    return CURRENT.get(None) or Record()


def record_of(scope: Scope) -> Record:
    found: Record = scope[SCOPE]
    return found
