"""Why a round or a stream is not run: typed, each with the protocol's code for it."""

from __future__ import annotations

from remote.protocol import Conflict, ErrorCode


class RoundRefused(Exception):
    """A round that is not run, and leaves its session as it was; the message says why.

    RoundRefused
    ├── BadRound       breaks a rule of the protocol
    ├── OutOfOrder     older than the session's last round
    ├── Superseded     replaced by a newer one of the same session while it was read
    ├── TooLong        more tokens than a session may hold
    ├── Overloaded           no room now: too many wait, or running sessions take all of it
    ├── Dropped        its session was forgotten while it ran
    └── UnknownPrefix       the verifier does not hold the prefix that the device builds on
    """

    code: ErrorCode = "bad_request"
    retry = False
    """The same request may succeed later."""


class BadRound(RoundRefused):
    """Breaks a rule of the protocol."""


class OutOfOrder(RoundRefused):
    """Older than the session's last round."""

    code = "out_of_order"


class Superseded(RoundRefused):
    """Replaced by a newer round or stream of the same session while its prompt was read."""

    code = "out_of_order"


class TooLong(RoundRefused):
    """More tokens than a session may hold."""

    code = "too_long"


class Overloaded(RoundRefused):
    """No room now: too many wait already, or running sessions take all of it."""

    code = "busy"
    retry = True


class Dropped(RoundRefused):
    """Its session was forgotten while it ran."""

    code = "unavailable"
    retry = True


class UnknownPrefix(RoundRefused):
    """The verifier does not hold the prefix that the device builds on; `conflict` tells what it has."""

    def __init__(self, conflict: Conflict) -> None:
        super().__init__("the verifier holds other tokens")
        self.conflict = conflict
