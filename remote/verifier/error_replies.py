"""Errors of the verifier as HTTP replies, in the format that the path uses: our protocol's, or OpenAI's."""

from __future__ import annotations

import logging
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ExceptionHandler

from models.engines.engine import BrokenTarget
from remote.openai.schema import JSON, error_body, speaks_openai
from remote.protocol import CONTENT_TYPE, Error, ErrorCode, ProtocolError, Struct, encode
from remote.verifier.completions.completion_requests import CompletionRefused
from remote.verifier.observability.observer import HUNG_UP
from remote.verifier.refusals import RoundRefused

log = logging.getLogger(__name__)

STATUS: dict[ErrorCode, int] = {
    "bad_request": 400,
    "not_found": 404,
    "out_of_order": 412,
    "too_large": 413,
    "too_long": 422,
    "internal": 500,
    "busy": 503,
    "unavailable": 503,
}
OPENAI_STATUS: dict[ErrorCode, int] = {"too_long": 400, "busy": 429}
"""Statuses of OpenAI's API for errors that have a different one in our protocol."""
ELSEWHERE = "there is no such path. OpenAI's API is below /v1: /v1/chat/completions, /v1/completions and /v1/models."


class TooLarge(Exception):
    """A body over the limit. It is not read further than that."""


def reply_of(message: Struct, status: int = 200) -> Response:
    return Response(encode(message), status, media_type=CONTENT_TYPE)


def error_reply(
    request: Request,
    code: ErrorCode,
    message: str,
    *,
    retry: bool = False,
    status: int | None = None,
    seconds: int = 1,
    refused: RoundRefused | None = None,
) -> Response:
    """An error in the format that the path uses.

    `status`: if it differs from the code's. `seconds`: when a client should retry if there is no room. `refused`: the
    exception behind it, which may name the field.
    """
    error = Error(code=code, message=message, retry=retry)
    if speaks_openai(request.scope["path"]):
        param = None if refused is None else refused.param
        reason = refused.reason if isinstance(refused, CompletionRefused) else None
        body = error_body(error, param=param, code=reason)
        response = Response(body, status or OPENAI_STATUS.get(code, STATUS[code]), media_type=JSON)
    else:
        response = reply_of(error, status or STATUS[code])
    if response.status_code in (429, 503):
        response.headers["Retry-After"] = str(seconds)
    return response


async def _malformed(request: Request, error: Exception) -> Response:
    return error_reply(request, "bad_request", str(error))


async def _too_large(request: Request, error: Exception) -> Response:
    # The rest of the body is not read, so this connection cannot carry another request.
    response = error_reply(request, "too_large", str(error))
    response.headers["Connection"] = "close"
    return response


async def _broken(request: Request, error: Exception) -> Response:
    log.error("%s", error)
    return error_reply(request, "internal", str(error))


async def _gone(request: Request, error: Exception) -> Response:
    return Response(status_code=HUNG_UP)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code: ErrorCode = "not_found" if error.status_code == 404 else "bad_request"
    path = request.scope["path"]
    lost = error.status_code == 404 and speaks_openai(path)
    told = f"{request.method} {path}: {ELSEWHERE if lost else error.detail}"
    response = error_reply(request, code, told, status=error.status_code)
    response.headers.update(error.headers or {})
    return response


async def _unexpected(request: Request, error: Exception) -> Response:
    return error_reply(request, "internal", "The server failed; its log says why. The session is kept.", retry=True)


HANDLERS: dict[Any, ExceptionHandler] = {
    HTTPException: _http_error,
    ProtocolError: _malformed,
    TooLarge: _too_large,
    BrokenTarget: _broken,
    ClientDisconnect: _gone,
    Exception: _unexpected,
}
"""The reply to each error that no endpoint handles."""
