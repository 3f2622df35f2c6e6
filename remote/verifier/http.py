"""The verifier over HTTP: bodies in, typed errors or streamed frames out.

The engine runs in a worker thread, one call at a time and first come, first served: a round is one call, so is each of
a stream's own rounds, and so is each memory frame after them: rounds of other sessions slip in between. (Where the
verifier drafts by itself, a prompt's pass through the drafter is part of the stream's first round.) A client that
hangs up stops its own stream only; the call in progress runs to its end, and the session stays whole. Paths that
OpenAI named answer in its dialect, errors included.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TypeVar

import anyio
import msgspec
from anyio import to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from drafter.text import ChatText
from remote.openai import JSON, PATHS, error_body
from remote.protocol import (
    CONTENT_TYPE,
    Card,
    Error,
    ErrorCode,
    Frame,
    Progress,
    ProtocolError,
    Round,
    Stream,
    Struct,
    Verdict,
    decode,
    encode,
    encode_frame,
)
from remote.verifier.completions import Completions
from remote.verifier.engine import BrokenTarget, Engine
from remote.verifier.hosted import OwnDrafter
from remote.verifier.security import BearerAuth
from remote.verifier.sessions import Diverged, Reply, RoundRefused, Sessions

log = logging.getLogger(__name__)
T = TypeVar("T")

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
STREAM_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
"""A proxy that buffers would hold the verdict back until the memory is there."""


class Busy(Exception):
    """Too many wait already."""


class TooLarge(Exception):
    """A body over the limit; never read further than that."""


def create_app(
    engine: Engine,
    card: Card,
    *,
    token: str | None = None,
    max_sessions: int = 32,
    max_cached_tokens: int = 1 << 17,
    max_waiting: int = 64,
    own: OwnDrafter | None = None,
    text: ChatText | None = None,
) -> Starlette:
    """The service as an ASGI app. At most `max_waiting` rounds are in progress or queued; others get `busy`.

    `own` drafts in streams; without it they yield a token a round. `text` serves chat completions to other clients.
    """
    card = msgspec.structs.replace(card, drafts=own is not None)
    sessions = Sessions(
        engine,
        card.limits,
        frozenset(card.stop_tokens),
        max_sessions=max_sessions,
        max_cached_tokens=max_cached_tokens,
        own=own,
    )
    service = Service(sessions, card, max_waiting)
    spoken = [] if text is None else _chat_routes(Completions(sessions, card, text, service))
    return Starlette(
        routes=[
            *spoken,
            Route("/v1/card", service.card),
            Route("/v1/rounds", service.rounds, methods=["POST"]),
            Route("/v1/streams", service.streams, methods=["POST"]),
            Route("/v1/sessions/{name}", service.drop, methods=["DELETE"]),
            Route("/healthz", service.health),
            Route("/metrics", service.metrics),
        ],
        middleware=[Middleware(BearerAuth, token=token)],
        exception_handlers={
            HTTPException: _http_error,
            RoundRefused: _refused,
            Busy: _busy,
            ProtocolError: _malformed,
            TooLarge: _too_large,
            BrokenTarget: _broken,
            ClientDisconnect: _gone,
            Exception: _unexpected,
        },
    )


def _chat_routes(completions: Completions) -> list[Route]:
    async def chat(request: Request) -> Response:
        return await completions.answer(await _read(request, completions.max_body_bytes), request.is_disconnected)

    async def models(request: Request) -> Response:
        return completions.models()

    async def model(request: Request) -> Response:
        return completions.model(request.path_params["name"])

    return [
        Route("/v1/chat/completions", chat, methods=["POST"]),
        Route("/v1/models", models),
        Route("/v1/models/{name:path}", model),
    ]


class Service:
    """The endpoints. Everything in `sessions` is touched by the engine's thread only, counters excepted."""

    def __init__(self, sessions: Sessions, card: Card, max_waiting: int) -> None:
        self.sessions, self._card, self.max_waiting = sessions, card, max_waiting
        self.waiting = 0
        self.engine_seconds = 0.0
        self._turn = anyio.CapacityLimiter(1)

    async def card(self, request: Request) -> Response:
        return _message(self._card)

    async def rounds(self, request: Request) -> Response:
        body = await _read(request, self._card.limits.max_body_bytes)
        arrived = time.monotonic()
        message = decode(body, Round)
        reply = await self.queued(lambda: self.sessions.round(message))
        verdict = msgspec.structs.replace(reply.verdict, server_seconds=time.monotonic() - arrived)
        return StreamingResponse(self._frames(verdict, reply), headers=STREAM_HEADERS, media_type=CONTENT_TYPE)

    async def _frames(self, verdict: Verdict, reply: Reply) -> AsyncIterator[bytes]:
        yield encode_frame(verdict)
        for index in range(len(reply.spans)):
            frame = await self.in_turn(lambda index=index: self.sessions.memory(reply, index))  # type: ignore[misc]
            if frame is None:
                return
            yield encode_frame(frame)

    async def streams(self, request: Request) -> Response:
        body = await _read(request, self._card.limits.max_body_bytes)
        arrived = time.monotonic()
        frames = self.sessions.stream(decode(body, Stream))
        first = await self.queued(lambda: next(frames, None))
        if isinstance(first, Progress):
            first = msgspec.structs.replace(first, server_seconds=time.monotonic() - arrived)
        return StreamingResponse(self._streamed(first, frames), headers=STREAM_HEADERS, media_type=CONTENT_TYPE)

    async def _streamed(self, frame: Frame | None, frames: Iterator[Frame | None]) -> AsyncIterator[bytes]:
        """An error on the way cuts the body off, so that nobody takes what came for all."""
        end = object()
        following: Frame | object | None = frame
        while following is not end:
            if isinstance(following, Frame):
                yield encode_frame(following)
            following = await self.in_turn(lambda: next(frames, end))

    async def queued(self, call: Callable[[], T]) -> T:
        """Raises `Busy` where too many wait already."""
        if self.waiting >= self.max_waiting:
            raise Busy(f"{self.waiting} rounds are waiting already. Try again in a moment.")
        self.waiting += 1
        try:
            return await self.in_turn(call)
        finally:
            self.waiting -= 1

    async def drop(self, request: Request) -> Response:
        name = request.path_params["name"]
        if await self.in_turn(lambda: self.sessions.drop(name)):
            return Response(status_code=204)
        return _error(request, "not_found", "There is no such session; it may have been dropped before.")

    async def health(self, request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def metrics(self, request: Request) -> Response:
        """Prometheus text."""
        counters = {**dataclasses.asdict(self.sessions.counters), "engine_seconds": round(self.engine_seconds, 6)}
        gauges = {
            "sessions": len(self.sessions),
            "cached_tokens": self.sessions.cached_tokens,
            "waiting_rounds": self.waiting,
        }
        lines = [
            f"# TYPE outrider_{name}_total counter\noutrider_{name}_total {value}" for name, value in counters.items()
        ]
        lines += [f"# TYPE outrider_{name} gauge\noutrider_{name} {value}" for name, value in gauges.items()]
        return PlainTextResponse("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4")

    async def in_turn(self, call: Callable[[], T]) -> T:
        def timed() -> T:
            start = time.monotonic()
            try:
                return call()
            finally:
                self.engine_seconds += time.monotonic() - start

        return await to_thread.run_sync(timed, limiter=self._turn)


async def _read(request: Request, limit: int) -> bytes:
    """The whole body. Raises `TooLarge` as soon as it is known to exceed `limit` bytes."""
    announced = request.headers.get("content-length", "0")
    if not announced.isdecimal() or int(announced) > limit:
        raise TooLarge(f"A body of {announced} bytes; this verifier reads {limit}.")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise TooLarge(f"A body of more than {limit} bytes; this verifier reads no further.")
    return bytes(body)


# ---- replies ---------------------------------------------------------------------------------------------------------


def _message(message: Struct, status: int = 200) -> Response:
    return Response(encode(message), status, media_type=CONTENT_TYPE)


def _error(
    request: Request, code: ErrorCode, message: str, *, retry: bool = False, status: int | None = None
) -> Response:
    """In the dialect of the path. `status`: another than that of the code."""
    error = Error(code=code, message=message, retry=retry)
    if not request.url.path.startswith(PATHS):
        return _message(error, status or STATUS[code])
    status = status or (400 if code == "too_long" else STATUS[code])
    return Response(error_body(error), status, {"Retry-After": "1"} if status == 503 else None, JSON)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, RoundRefused)
    return _message(error.conflict, 409) if isinstance(error, Diverged) else _error(request, error.code, str(error))


async def _busy(request: Request, error: Exception) -> Response:
    return _error(request, "busy", str(error), retry=True)


async def _malformed(request: Request, error: Exception) -> Response:
    return _error(request, "bad_request", str(error))


async def _too_large(request: Request, error: Exception) -> Response:
    # What is left of the body stays unread, so this connection cannot carry another request.
    response = _error(request, "too_large", str(error))
    response.headers["Connection"] = "close"
    return response


async def _broken(request: Request, error: Exception) -> Response:
    log.error("%s", error)
    return _error(request, "internal", str(error))


async def _gone(request: Request, error: Exception) -> Response:
    return _error(request, "bad_request", "The request ended before its body did.")


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code: ErrorCode = "not_found" if error.status_code == 404 else "bad_request"
    told = f"{request.method} {request.url.path}: {error.detail}"
    response = _error(request, code, told, status=error.status_code)
    response.headers.update(error.headers or {})
    return response


async def _unexpected(request: Request, error: Exception) -> Response:
    return _error(request, "internal", "The verifier failed; its log says why. The session is kept.", retry=True)
