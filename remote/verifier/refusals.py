"""Typed reasons why a round or a stream is not run, each with the protocol's code for it."""

from __future__ import annotations

from remote.protocol import Conflict, ErrorCode


class RoundRefused(Exception):
    """A round that is not run and leaves its session as it was. The message says why."""

    code: ErrorCode = "bad_request"
    retry = False
    """Whether the same request may succeed later."""
    param: str | None = None
    """The field that it is about, in OpenAI's API."""


class BadRound(RoundRefused):
    """It breaks a rule of the protocol."""


class OutOfOrder(RoundRefused):
    """It is older than the session's last round."""

    code = "out_of_order"


class Superseded(RoundRefused):
    """A newer round or stream of the same session replaced it while its prompt was read."""

    code = "out_of_order"


class TooLong(RoundRefused):
    """It has more tokens than a session may hold."""

    code = "too_long"


class Overloaded(RoundRefused):
    """There is no room now: too many wait already, or running sessions take all of it."""

    code: ErrorCode = "busy"
    retry = True

    def __init__(self, message: str, seconds: int = 1) -> None:
        """`seconds`: when it is worth trying again."""
        super().__init__(message)
        self.seconds = seconds


class Dropped(RoundRefused):
    """Its session was dropped while it ran."""

    code = "unavailable"
    retry = True


class UnknownPrefix(RoundRefused):
    """The verifier does not hold the prefix that the device builds on. `conflict` lists what it has."""

    def __init__(self, conflict: Conflict) -> None:
        super().__init__("the verifier holds other tokens")
        self.conflict = conflict
