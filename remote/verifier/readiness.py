"""Whether the server can take a request now. `/healthz` only says that it is alive."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from remote.verifier.admission import Admission
from remote.verifier.completions.line import Line
from remote.verifier.sessions.turns import Turns

STUCK_SECONDS = 60.0
"""Time after which an engine that has work but finishes none counts as stuck."""


class Readiness:
    """The endpoint `/readyz`. It exists once the model is loaded."""

    def __init__(self, turns: Turns, admission: Admission, line: Line | None) -> None:
        """`line`: where chat completions wait, if they are served."""
        self._turns, self._admission, self._line = turns, admission, line

    def reasons(self) -> list[str]:
        """Why a request should go elsewhere; empty if it should come."""
        found = []
        if self._admission.draining:
            found.append("the server is shutting down")
        if (seconds := self._turns.stuck_seconds) > STUCK_SECONDS:
            found.append(f"the engine has finished nothing for {seconds:.0f} s")
        if self._turns.waiting >= self._turns.max_waiting or (self._line is not None and self._line.full):
            found.append("the queue is full")
        return found

    async def answer(self, request: Request) -> Response:
        """200, or 503 with the reasons."""
        if reasons := self.reasons():
            return PlainTextResponse("".join(f"{reason}\n" for reason in reasons), 503, {"Retry-After": "1"})
        return PlainTextResponse("ready\n")
