"""Why an answer ends before it is complete, as an exception."""

from __future__ import annotations

from app.events import Failed, FailureCode


class NoAnswer(Exception):
    """Nobody can write the answer, or the rest of it. `event` is the message to the person."""

    def __init__(
        self, message: str, code: FailureCode, *, passing: bool = False, wants_token: bool = False, advice: str = ""
    ) -> None:
        """`passing`: the server is only temporarily away, so the question may wait for it.

        `wants_token`, `advice`: as in `Failed`.
        """
        super().__init__(message)
        self.event = Failed(message, code, wants_token=wants_token, advice=advice)
        self.passing = passing

    def adding(self, said: str) -> NoAnswer:
        """The same error with a further sentence, which may be empty."""
        event, message = self.event, f"{self} {said}".rstrip()
        return NoAnswer(message, event.code, passing=self.passing, wants_token=event.wants_token, advice=event.advice)


def too_long(most: int) -> NoAnswer:
    """The conversation has more than `most` tokens."""
    said = f"The conversation is longer than {most} tokens, the most that can be read."
    return NoAnswer(f"{said} Shorten the question, or start a new conversation.", "too_long")
