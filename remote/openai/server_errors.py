"""Turns what an OpenAI-compatible server says in place of an answer into one of the errors of `remote/errors.py`.

Servers agree neither on codes nor on shapes, so the status counts first, then the words.
"""

from __future__ import annotations

import re

from remote.errors import Busy, Refused, RemoteError, quoted
from remote.openai.schema import read_error
from remote.protocol import Error, ErrorCode
from remote.wire import Response, Wire

ADVICE = "check the token of this remote"
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
MAX_JUDGED = 4096
"""Characters of an error's text that are looked at."""


async def refusal(wire: Wire, answer: Response) -> RemoteError:
    """The error to raise for a response that is not an answer."""
    try:
        told = None
        if answer.status >= 400:
            body = await answer.read()
            told = read_error(body, bare=True) if body.lstrip()[:1] == b"{" else _words(answer, body)
        if told is None:
            return wire.stranger(answer)
        message, kind = told
        return refused(wire.host, answer.status, wire.hiding(message), kind, answer.retry_after, begun=False)
    finally:
        await answer.aclose()


def _words(answer: Response, body: bytes) -> tuple[str, str] | None:
    """A web framework's plain words, such as `Internal Server Error`. None for words that a stranger may have said."""
    if answer.content_type != "text/plain" or answer.status in PROXIES or not body.strip():
        return None
    return quoted(body[:MAX_JUDGED].decode("utf-8", errors="replace").strip()), ""


def refused(
    host: str, status: int, message: str, kind: str, after: float | None = None, *, begun: bool = True
) -> Refused:
    """The error for a server's own words. `status`: 500 for an error inside an answer, whose `kind` may name another.

    `begun`: the server may have begun to answer, so the request cannot simply be sent again.
    """
    if status == 500 and (named := re.search(r"\b[45]\d\d\b", kind)):
        status = int(named[0])
    code: ErrorCode = "bad_request"
    if status in (401, 403):
        code = "unauthorised"
        if ADVICE not in message.lower():
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
    return Busy(error, after) if retry and status in WAITING and not begun else Refused(error)
