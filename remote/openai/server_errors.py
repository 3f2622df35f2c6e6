"""Maps error responses of OpenAI-compatible servers to the errors of `remote/errors.py`.

Servers agree neither on codes nor on shapes, so the status counts first, then the words.
"""

from __future__ import annotations

import re

from remote.errors import Busy, LinkDown, Refused, RemoteError, Stranger
from remote.openai.error_bodies import NO_REASON, ErrorBody, read_error
from remote.openai.lenient_json import UNREADABLE, parse
from remote.pages import NOBODY_BEHIND, PLAIN_TO_TLS, said_on
from remote.protocol import Error, ErrorCode
from remote.response import Response
from remote.wire import Wire

ADVICE, ADVISED = "check the token of this server (outrider remote token NAME)", "check the token"
"""Advice about a wrong token, and words of servers that give such advice themselves."""
SPENT = "insufficient_quota"
"""A limit that waiting does not lift."""
WAITING = (429, 503, 529)
"""Statuses that mean that nothing has begun, because the server is full or still loading its model."""
FULL = re.compile(
    r"context.?(length|size|window)|exceed_context|n_ctx|maximum context|too many (input |prompt )?tokens"
    r"|(prompt|input|request|messages?|conversation)\b.{0,80}\btoo (long|large)"
    r"|(maximum|max) (allowed )?(number of )?(input )?tokens|tokens? .{0,40}must be (<=|less|at most)",
    re.IGNORECASE | re.DOTALL,
)
"""How servers say that the conversation is too long for the model: vLLM, llama.cpp, Ollama, LM Studio, TGI, OpenAI,
Mistral, Anthropic and Google."""
PROXY = 407
"""Status that only a proxy gives."""
NOT_SERVED = (404, 405, 410, 501)
"""Statuses of an address where this API is not served."""
PROXIES = (401, *(status for status in NOBODY_BEHIND if status != 503))
"""Statuses that, with a plain-text body, more likely come from a proxy."""
WRONG_KEY = re.compile(r"api.?key.{0,20}(not valid|invalid|expired)|(invalid|incorrect) api.?key", re.IGNORECASE)
"""A wrong token, in the words of Google, which answers 400 to it."""
AGAIN = re.compile(r"(?:try again|retry) (?:in|after) (?:(\d+)m)? ?(\d+(?:\.\d+)?) ?(ms|s)", re.IGNORECASE)
"""When a full server wants to be asked again, as OpenAI, Groq and Google say it."""
MAX_JUDGED = 4096
"""Characters of an error's text that are searched."""


class BadRequest(Refused):
    """The server does not accept the request as it is. No work has begun.

    `status`: of the answer. `said`: its full message and codes. `field`: the part of the request that it names in a
    separate attribute; may be empty.
    """

    def __init__(self, error: Error, status: int, said: str, field: str) -> None:
        super().__init__(error)
        self.status, self.said, self.field = status, said, field


class Forbidden(Refused):
    """The server does not allow this device or token to do this one thing."""


async def refusal(wire: Wire, answer: Response) -> RemoteError:
    try:
        if answer.status < 400 or answer.status == PROXY:
            return wire.stranger(answer)
        body = b"" if answer.encoding else await answer.read()
        told = _words(answer, body)
        if told is None:
            return _page(wire, answer, body)
        message, kind, field = told
        error = refused(wire.host, answer.status, wire.hiding(message), kind, answer.retry_after, begun=False)
        if error.code == "bad_request":
            return BadRequest(error.told, answer.status, f"{kind} {message}"[:MAX_JUDGED], field)
        return error
    finally:
        await answer.aclose()


def _words(answer: Response, body: bytes) -> ErrorBody | None:
    """The server's own message: JSON of any shape, or plain words such as `Internal Server Error`.

    None for a page, and for words that may be a proxy's.
    """
    if PLAIN_TO_TLS.search(body):
        return None
    if parse(body) is not UNREADABLE:
        told = read_error(body, bare=True)
        return None if told is None or told.message == NO_REASON else told
    said = said_on(body)
    page = "html" in answer.content_type or b"<" in body
    return ErrorBody(said) if said and not page and answer.status not in PROXIES else None


def _page(wire: Wire, answer: Response, page: bytes) -> RemoteError:
    """The error for a page from an intermediary or from a proxy in front of the server."""
    error, status, after = wire.stranger(answer, page), answer.status, answer.retry_after
    if not isinstance(error, LinkDown) or status in NOT_SERVED or (isinstance(error, Stranger) and not error.status):
        return error
    if status == 429 or (status == 503 and after is not None):
        return Busy(Error(code="busy", message=str(error), retry=True), after)
    if isinstance(error, Stranger) and status < 500:
        code: ErrorCode = "too_long" if status == 413 else "bad_request"
        return Refused(Error(code=code, message=str(error), retry=False))
    return error


def refused(
    host: str, status: int, message: str, kind: str, after: float | None = None, *, begun: bool = True
) -> Refused:
    """The error for a server's own message. `status`: 500 for an error inside an answer; its `kind` may imply another.

    `begun`: the server may have begun to answer, so the request cannot simply be repeated.
    """
    shown = "" if begun else f" ({status})"
    if status == 500 and (named := re.search(r"\b[45]\d\d\b", kind)):
        status, shown = int(named[0]), f" ({named[0]})"
    code: ErrorCode = "bad_request"
    if status in (401, 403) or (status in (400, 500) and WRONG_KEY.search(message[:MAX_JUDGED])):
        code = "unauthorised"
        if ADVISED not in message.lower():
            message = f"{message}; {ADVICE}"
    elif status == 429:
        code = "busy"
    elif status == 413 or (status in (400, 422, 500) and FULL.search(f"{kind} {message}"[:MAX_JUDGED])):
        code = "too_long"
    elif status == 404:
        code = "not_found"
    elif status >= 500 or status == 408:
        code = "unavailable"
    retry = code in ("busy", "unavailable") and SPENT not in kind
    error = Error(code=code, message=f"{host} refused{shown}: {message}", retry=retry)
    if retry and status in WAITING and not begun:
        return Busy(error, _pause(message[:MAX_JUDGED]) if after is None else after)
    return Forbidden(error) if status == 403 else Refused(error)


def _pause(said: str) -> float | None:
    """Seconds until it is worth asking again, according to the server, or None if it does not say."""
    if (found := AGAIN.search(said)) is None:
        return None
    minutes, count, unit = found.groups()
    return 60.0 * float(minutes or 0) + float(count) / (1000 if unit.lower() == "ms" else 1)
