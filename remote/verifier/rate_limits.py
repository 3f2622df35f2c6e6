"""How much one token holder may ask for: answers at once, answers a minute, tokens a minute.

A minute's worth may be used at once, and comes back evenly. What an answer takes is known only at its end. So an answer
that took more than was left leaves a debt, and the holder waits until it is paid.
"""

from __future__ import annotations

import math
from typing import Literal

from remote.verifier.options import ServeOptions
from remote.verifier.refusals import Overloaded

MINUTE = 60.0

Kind = Literal["answers", "requests", "tokens"]


class NotAdmitted(Overloaded):
    """An answer that may not begin now. `reason`: what there was too much of, in one word."""

    def __init__(self, reason: str, message: str, seconds: int) -> None:
        super().__init__(message, seconds)
        self.reason = reason


class RateLimited(NotAdmitted):
    """A holder has all that one may have for now."""


class Bucket:
    """A minute's worth of something, which comes back evenly. It may be overdrawn."""

    def __init__(self, a_minute: int, now: float) -> None:
        self.a_minute, self._left, self._seen = a_minute, float(a_minute), now

    def spend(self, count: float, now: float) -> None:
        """Take so much out of it, even if it holds less."""
        self._fill(now)
        self._left -= count

    def wait(self, wanted: float, now: float) -> float:
        """Seconds until it holds `wanted`; 0 if it does."""
        self._fill(now)
        return max(0.0, (wanted - self._left) * MINUTE / self.a_minute)

    def _fill(self, now: float) -> None:
        self._left = min(float(self.a_minute), self._left + (now - self._seen) * self.a_minute / MINUTE)
        self._seen = now


class Account:
    """What one holder has used of late."""

    def __init__(self, options: ServeOptions, now: float) -> None:
        requests, tokens = options.requests_per_minute, options.tokens_per_minute
        self._answers = options.max_per_token
        self._requests = None if requests is None else Bucket(requests, now)
        self._tokens = None if tokens is None else Bucket(tokens, now)

    def begin(self, running: int, now: float) -> None:
        """Count one more answer beside those that are `running`. Raises `RateLimited`."""
        if self._answers is not None and running >= self._answers:
            raise RateLimited(
                "answers",
                f"This token has as many answers on their way as it may have at once ({self._answers}). "
                "Wait until one of them has ended.",
                1,
            )
        if self._tokens is not None and (seconds := self._tokens.wait(1, now)):
            raise _spent("tokens", self._tokens.a_minute, seconds)
        if self._requests is not None:
            if seconds := self._requests.wait(1, now):
                raise _spent("requests", self._requests.a_minute, seconds)
            self._requests.spend(1, now)

    def took(self, tokens: int, now: float) -> None:
        """Count tokens of an answer."""
        if self._tokens is not None:
            self._tokens.spend(tokens, now)


def _spent(kind: Kind, most: int, seconds: float) -> RateLimited:
    whole = max(1, math.ceil(seconds))
    said = f"This token has used up its {kind} of this minute ({most} a minute). Try again in {whole} s."
    return RateLimited(kind, said, whole)
