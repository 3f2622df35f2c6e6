"""The gateway over HTTP: access control, routes, body limits and errors, all in OpenAI's format."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine
from typing import Any, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from app.concurrency import first_of
from app.gateway.answers import PATH, Answers
from app.gateway.apis.chat_api import ChatApi
from app.gateway.apis.messages_api import MessagesApi, chat_fields, error_body, read_messages
from app.gateway.apis.responses_api import ResponsesApi
from app.gateway.apis.responses_request import Conversations, read_responses
from app.gateway.apis.text_api import TextApi, read_text
from app.gateway.call import read_call
from app.gateway.checks import Checks
from app.gateway.completions import Api, Completions
from app.gateway.refusals import SERVER, GatewayRefused
from app.gateway.seats import Seats
from remote.openai.schema import JSON
from remote.openai.sse import QUIET_SECONDS
from remote.verifier.holders import Tokens
from remote.verifier.security import OPEN_PATHS, BearerAuth, open_to_pages

T = TypeVar("T")
Handler = Callable[[Request], Awaitable[Response]]
log = logging.getLogger("outrider.gateway")
MESSAGES = "/v1/messages"
MOST_BODY_BYTES = 16 << 20
"""More than the longest readable conversation needs: some two million tokens as JSON."""
MOST_THROWN_AWAY = 64 << 20
HUNG_UP = 499
"""The status that proxies log for a client that left; nobody reads it."""


class Guard(BearerAuth):
    """Middleware that admits programs on this device but no web pages, or with a token file, only token holders."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in OPEN_PATHS and (found := self._refusal(scope)) is not None:
            await _response(scope["path"], found)(scope, receive, send)
            return
        await self.app(scope, receive, send)

    def _refusal(self, scope: Scope) -> GatewayRefused | None:
        headers = Headers(scope=scope)
        if "authorization" not in headers and (key := headers.get("x-api-key")):  # Anthropic's clients.
            headers = Headers({**headers, "authorization": f"Bearer {key}"})
        _, why = self._holder(headers)
        if why is not None:
            return GatewayRefused(why, status=401, code="invalid_api_key", kind="authentication_error")
        if not self._is_known(headers.get("host")):
            return GatewayRefused(
                "Without a token the gateway answers to localhost and 127.0.0.1 only.", status=421, code="wrong_host"
            )
        return None


def create_app(
    seats: Seats,
    answers: Answers,
    checks: Checks,
    tokens: Tokens | None = None,
    quiet_seconds: float = QUIET_SECONDS,
    origins: Collection[str] = (),
) -> ASGIApp:
    """The gateway as an ASGI app. `tokens`: those that clients may send, or None if clients need none.

    `quiet_seconds`: silence after which a stream sends a sign of life. `origins`: of web pages that may ask.
    """
    completions = Completions(seats, answers, checks, quiet_seconds)
    conversations = Conversations()

    def answering(read: Callable[[bytes], T], api: Callable[[T], Api]) -> Handler:
        async def answer(request: Request) -> Response:
            asked = await asyncio.to_thread(read, await _body(request))
            return await _unless_gone(request, completions.answer(api(asked)))

        return answer

    async def answer(request: Request) -> Response:
        report = answers.get(request.path_params["name"]).report
        return Response(msgspec.json.encode(report), media_type=JSON)

    async def health(request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def count(request: Request) -> Response:
        return await completions.count(await asyncio.to_thread(chat_fields, await _body(request)))

    chat, text = answering(read_call, ChatApi), answering(read_text, TextApi)
    messages = answering(read_messages, MessagesApi)
    responses = answering(
        lambda body: read_responses(body, conversations), lambda asked: ResponsesApi(asked, conversations)
    )
    app = Starlette(
        routes=[
            Route("/v1/chat/completions", chat, methods=["POST"]),
            Route("/v1/responses", responses, methods=["POST"]),
            Route("/v1/completions", text, methods=["POST"]),
            Route(MESSAGES, messages, methods=["POST"]),
            Route(f"{MESSAGES}/count_tokens", count, methods=["POST"]),
            Route("/v1/models", completions.model_list),
            Route("/v1/models/{name:path}", completions.model),
            Route(PATH + "{name}", answer),
            Route("/healthz", health),
        ],
        middleware=[Middleware(Guard, tokens=tokens, origins=origins)],
        exception_handlers={
            GatewayRefused: _refuse,
            HTTPException: _http_error,
            ClientDisconnect: _gone,
            Exception: _unexpected,
        },
    )
    return open_to_pages(app, origins)


async def _body(request: Request) -> bytes:
    """The whole body. Raises `GatewayRefused` if it is too large or compressed.

    Most of such a body is still read and discarded, because a client that is still sending would not see the error.
    """
    body, size = bytearray(), 0
    async for chunk in request.stream():
        size += len(chunk)
        if size <= MOST_BODY_BYTES:
            body += chunk
        elif size > MOST_THROWN_AWAY:
            break
    if size > MOST_BODY_BYTES:
        raise GatewayRefused(
            f"The body is larger than {MOST_BODY_BYTES >> 20} MB, longer than any conversation that can be read.",
            status=413,
            code="request_too_large",
        )
    encoding = request.headers.get("content-encoding", "").strip()
    if encoding.lower() not in ("", "identity"):
        raise GatewayRefused(
            f"Compressed bodies are not supported ({encoding}); send them uncompressed.",
            status=415,
            code="compressed_body",
        )
    return bytes(body)


async def _unless_gone(request: Request, answer: Coroutine[Any, Any, Response]) -> Response:
    """The response. It is cancelled if the client disconnects first, which raises `ClientDisconnect`."""
    answering = asyncio.ensure_future(answer)
    answered, _ = await first_of(answering, _hung_up(request))
    if not answered:
        raise ClientDisconnect
    return answering.result()


async def _hung_up(request: Request) -> None:
    """Return once the client has disconnected. Its body has been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


# ---- errors ----------------------------------------------------------------------------------------------------------


def _response(path: str, error: GatewayRefused) -> Response:
    """An error in the shape of the API at a path."""
    response = error.response
    if path.startswith(MESSAGES):  # Anthropic's shape.
        response.body = error_body(error)
        response.headers["content-length"] = str(len(response.body))
    return response


async def _refuse(request: Request, error: Exception) -> Response:
    assert isinstance(error, GatewayRefused)
    response = _response(request.url.path, error)
    if error.status == 413:  # Part of the body may be unread, so this connection carries no other request.
        response.headers["Connection"] = "close"
    return response


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path, code, said = request.url.path, None, f"{error.detail}."
    if error.status_code == 404:
        known = (route.path for route in request.app.routes if "{" not in route.path)
        code, said = "not_found", f"there is no such path. There are {', '.join(known)}."
    said = f"{request.method} {path}: {said}"
    response = _response(path, GatewayRefused(said, status=error.status_code, code=code))
    response.headers.update(error.headers or {})
    return response


async def _gone(request: Request, error: Exception) -> Response:
    return Response(status_code=HUNG_UP)


async def _unexpected(request: Request, error: Exception) -> Response:
    said = "The gateway failed; `outrider log` says where."
    return _response(request.url.path, GatewayRefused(said, status=500, code="internal_error", kind=SERVER))
