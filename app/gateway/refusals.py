"""Requests that the gateway does not answer, each with the status and the words that a client of OpenAI's API knows."""

from __future__ import annotations

import msgspec
from starlette.responses import Response

from app.events import Failed, FailureCode
from remote.openai.schema import JSON

INVALID, SERVER = "invalid_request_error", "server_error"
LIMIT, PERMISSION = "rate_limit_error", "permission_error"
OWN_TOKEN = (
    "The gateway has no token for the server behind it, or a wrong one. It is not the key that you sent. On the "
    "gateway's device, give it with `outrider remote token NAME`, or, for a server without a name, with `outrider "
    "remote add NAME ADDRESS`; then start the gateway again."
)
"""The server behind the gateway refuses it, and would again: a person must repair that."""
SHORTEN = "Leave the oldest messages out. What the model reads beside them, such as examples from pages, counts too."
"""What to do where a conversation is too long."""
STATUS: dict[FailureCode, tuple[int, str]] = {
    "unavailable": (503, "server_unavailable"),
    "incompatible": (502, "server_incompatible"),
    "too_long": (400, "context_length_exceeded"),
    "refused": (400, "server_refused"),
    "broken": (502, "answer_broken"),
    "internal": (500, "internal_error"),
}
"""Status and code of an answer that failed before its first word."""


class GatewayRefused(Exception):
    """A request that is not answered. The message says why, and what to change.

    `parameter`: the field of the request that is meant. `seconds`: when to come again. `retries`: whether a client may
    send the same request again by itself, or None if the status says it.
    """

    def __init__(
        self,
        message: str,
        parameter: str | None = None,
        *,
        status: int = 400,
        code: str | None = None,
        kind: str = INVALID,
        seconds: int | None = None,
        retries: bool | None = None,
    ) -> None:
        super().__init__(message)
        self.parameter, self.status, self.code, self.kind = parameter, status, code, kind
        self.seconds, self.retries = seconds, retries

    @property
    def body(self) -> bytes:
        """The error as JSON."""
        inner = {"message": str(self), "type": self.kind, "param": self.parameter, "code": self.code}
        return msgspec.json.encode({"error": inner})

    @property
    def response(self) -> Response:
        """The error as a whole answer."""
        response = Response(self.body, self.status, media_type=JSON)
        if self.seconds is not None:
            response.headers["Retry-After"] = str(self.seconds)
        if self.retries is not None:
            response.headers["x-should-retry"] = "true" if self.retries else "false"
        return response


def refused(failed: Failed) -> GatewayRefused:
    """The error for an answer that failed."""
    if failed.wants_token:
        return GatewayRefused(f"{OWN_TOKEN} {failed.message}", status=403, code="server_token_refused", kind=PERMISSION)
    status, code = STATUS[failed.code]
    kind = INVALID if status == 400 else SERVER
    too_long = failed.code == "too_long"
    parameter, more = ("messages", f" {SHORTEN}") if too_long else (None, "")
    # Official clients send again by themselves after a 5xx. Where the server may have begun, that would be paid twice.
    retries = False if failed.code in ("broken", "incompatible") else None
    seconds = 1 if status == 503 else None
    return GatewayRefused(
        failed.message + more, parameter, status=status, code=code, kind=kind, seconds=seconds, retries=retries
    )
