"""Why an answer ends before it is complete, as an exception."""

from __future__ import annotations

from app.events import Failed, FailureCode
from remote import Refused


class NoAnswer(Exception):
    """Nobody can write the answer, or the rest of it. `event` tells the person."""

    def __init__(
        self, message: str, code: FailureCode, *, passing: bool = False, cause: Exception | None = None
    ) -> None:
        """`passing`: the server is only away, so the question may wait for it. `cause`: what the server said."""
        super().__init__(message)
        wants_token = isinstance(cause, Refused) and cause.code == "unauthorised"
        self.event = Failed(message, code, wants_token=wants_token)
        self.passing = passing
