"""Turns what an OpenAI-compatible server says in place of an answer into one of the errors of `remote/errors.py`.

Servers agree neither on codes nor on shapes, so the status counts first, then the words.
"""

from __future__ import annotations

import re

from remote.errors import Busy, Refused, RemoteError, quoted
from remote.openai.error_bodies import ErrorBody, read_error
from remote.protocol import Error, ErrorCode
from remote.wire import Response, Wire

ADVICE, ADVISED = "check the token of this server (outrider remote token NAME)", "check the token"
"""What to do about a wrong token, and words of a server that says so itself."""
SPENT = "insufficient_quota"
"""A limit that waiting does not lift."""
WAITING = (429, 503)
"""Statuses that mean: nothing has begun, because the server is full or still loads its model."""
FULL = re.compile(
    r"context.?(length|size|window)|exceed_context|n_ctx|maximum context|too many (input |prompt )?tokens"
    r"|(prompt|input|request|messages?|conversation)\b.{0,80}\btoo (long|large)"
    r"|(maximum|max) (allowed )?(number of )?(input )?tokens|tokens? .{0,40}must be (<=|less|at most)",
    re.IGNORECASE | re.DOTALL,
)
"""The conversation is longer than the model reads, in the words of vLLM, llama.cpp, Ollama, LM Studio, TGI, OpenAI,
Mistral, Anthropic and Google."""
PROXIES = (401, 502, 504)
"""Statuses that, in plain text, more likely come from somebody on the way."""
WRONG_KEY = re.compile(r"api.?key.{0,20}(not valid|invalid|expired)|(invalid|incorrect) api.?key", re.IGNORECASE)
"""A wrong token, in the words of Google, which answers 400 to it."""
AGAIN = re.compile(r"(?:try again|retry) (?:in|after) (?:(\d+)m)? ?(\d+(?:\.\d+)?) ?(ms|s)", re.IGNORECASE)
"""When a full server wants to be asked again, in the words of OpenAI, Groq and Google."""
MAX_JUDGED = 4096
"""Characters of an error's text that are looked at."""


class BadRequest(Refused):
    """The server does not take the request as it is. Nothing was begun.

    `status`: of the answer. `said`: its whole words and codes. `field`: the part of the request that it names apart
    from its words; may be empty.
    """

    def __init__(self, error: Error, status: int, said: str, field: str) -> None:
        super().__init__(error)
        self.status, self.said, self.field = status, said, field


async def refusal(wire: Wire, answer: Response) -> RemoteError:
    """The error to raise for a response that is not an answer."""
    try:
        told = None
        if answer.status >= 400:
            body = await answer.read()
            told = read_error(body, bare=True) if body.lstrip()[:1] in (b"{", b"[") else _words(answer, body)
        if told is None:
            return wire.stranger(answer)
        message, kind, field = told
        error = refused(wire.host, answer.status, wire.hiding(message), kind, answer.retry_after, begun=False)
        if error.code == "bad_request":
            return BadRequest(error.told, answer.status, f"{kind} {message}"[:MAX_JUDGED], field)
        return error
    finally:
        await answer.aclose()


def _words(answer: Response, body: bytes) -> ErrorBody | None:
    """A web framework's plain words, such as `Internal Server Error`. None for words that a stranger may have said."""
    if answer.content_type != "text/plain" or answer.status in PROXIES or not body.strip():
        return None
    return ErrorBody(quoted(body[:MAX_JUDGED].decode("utf-8", errors="replace").strip()))


def refused(
    host: str, status: int, message: str, kind: str, after: float | None = None, *, begun: bool = True
) -> Refused:
    """The error for a server's own words. `status`: 500 for an error inside an answer, whose `kind` may name another.

    `begun`: the server may have begun to answer, so the request cannot simply be sent again.
    """
    if status == 500 and (named := re.search(r"\b[45]\d\d\b", kind)):
        status = int(named[0])
    code: ErrorCode = "bad_request"
    if status in (401, 403) or (status == 400 and WRONG_KEY.search(message[:MAX_JUDGED])):
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
    error = Error(code=code, message=f"{host} refused ({status}): {message}", retry=retry)
    if retry and status in WAITING and not begun:
        return Busy(error, _pause(message[:MAX_JUDGED]) if after is None else after)
    return Refused(error)


def _pause(said: str) -> float | None:
    """Seconds until it is worth asking again, in a server's own words; None: it does not say."""
    if (found := AGAIN.search(said)) is None:
        return None
    minutes, count, unit = found.groups()
    return 60.0 * float(minutes or 0) + float(count) / (1000 if unit.lower() == "ms" else 1)
