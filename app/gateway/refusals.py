"""Requests that the gateway refuses, with the statuses and codes that clients of OpenAI's API know."""

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
    "remote add NAME ADDRESS`; then restart the gateway."
)
"""The server behind the gateway refuses it, and would again: a person must fix that."""
SHORTEN = (
    "Leave out the oldest messages. Everything else that the model reads, such as examples from pages, counts too."
)
"""Advice for a conversation that is too long."""
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

    `parameter`: the field of the request at fault. `seconds`: when to retry. `retries`: whether a client may retry on
    its own, or None if the status implies it.
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
        inner = {"message": str(self), "type": self.kind, "param": self.parameter, "code": self.code}
        return msgspec.json.encode({"error": inner})

    @property
    def response(self) -> Response:
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
    # Official clients retry on their own after a 5xx. If the server may have begun, that would be paid for twice.
    retries = False if failed.code in ("broken", "incompatible") else None
    seconds = 1 if status == 503 else None
    return GatewayRefused(
        failed.message + more, parameter, status=status, code=code, kind=kind, seconds=seconds, retries=retries
    )
