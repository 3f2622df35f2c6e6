"""The verifier over HTTP: bodies in, typed errors or streamed frames out.

The engine runs in a worker thread, and sessions take turns to use it (`sessions/turns.py`). A client that disconnects
stops only its own answer: the turn in progress runs to its end, and the session stays intact. OpenAI's paths answer in
OpenAI's format, errors included.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from models.engines.engine import Engine, EngineError
from models.text.chat_text import ChatText
from remote.protocol import (
    CONTENT_TYPE,
    Alive,
    Card,
    DrafterOffer,
    Frame,
    MemoryFormat,
    Propose,
    Proposed,
    Round,
    Stream,
    decode,
    encode_frame,
)
from remote.tasks import kept_alive
from remote.verifier.absence import Absence, Writing
from remote.verifier.admission import Admission, Gate, NotAdmitted, refusal
from remote.verifier.collector import CONTENT_TYPE as METRICS
from remote.verifier.collector import ServiceCollector, page
from remote.verifier.completions.completions import Completions
from remote.verifier.completions.line import Line
from remote.verifier.deliveries import Deliveries, TokenizerDelivery
from remote.verifier.drafting.lookups import OwnLookups
from remote.verifier.drafting.own_drafter import OwnDrafter
from remote.verifier.error_replies import HANDLERS, STATUS, TooLarge, error_reply, reply_of
from remote.verifier.holders import EVERYONE, holder_of
from remote.verifier.learning.learning import Learning
from remote.verifier.making.maker import Maker
from remote.verifier.observability.metrics import Metrics
from remote.verifier.observability.observer import Observer
from remote.verifier.observability.record import record_of
from remote.verifier.options import ServeOptions
from remote.verifier.refusals import Overloaded, RoundRefused, UnknownPrefix
from remote.verifier.security import BearerAuth, open_to_pages, web_origins
from remote.verifier.sessions.proposals import propose
from remote.verifier.sessions.sessions import Sessions
from remote.verifier.sessions.turns import Turns
from remote.verifier.sessions.verification import Answer
from remote.verifier.stream_response import STREAM_HEADERS, Cut, Streamed

MAX_CACHED_BYTES = 2 << 30
TOKEN_BYTES = 4
"""Bytes of a packed token id."""
MOST_DIGITS = 15
"""Digits of a number in a query."""
ALIVE_SECONDS = 0.25
"""Silence on a device's stream before a sign of life: a fraction of the silence that a device tolerates."""
STUCK_SECONDS = 60.0
"""Time after which an engine that has work but finishes none counts as stuck."""
DEFAULT = ServeOptions()

Message = TypeVar("Message", Round, Stream, Propose)


class VerifierApp(Observer):
    """The service as an ASGI app, with what its process needs."""

    def __init__(
        self,
        app: ASGIApp,
        routes: Sequence[BaseRoute],
        service: Service,
        beside: Learning | Maker | None,
    ) -> None:
        """`beside`: the background work for the server's idle time. Enter it once the server answers."""
        super().__init__(app, routes, service.requests)
        self.turns, self.admission, self.metrics = service.turns, service.admission, service.requests
        self.service, self.beside = service, beside


def create_app(
    engine: Engine,
    card: Card,
    options: ServeOptions = DEFAULT,
    *,
    max_bytes: int = MAX_CACHED_BYTES,
    own: OwnLookups | None = None,
    text: ChatText | None = None,
    deliveries: Deliveries | None = None,
    tokenizer: TokenizerDelivery | None = None,
    beside: Learning | Maker | None = None,
) -> VerifierApp:
    """Make the service as an ASGI app. The optional parts may be missing.

    `max_bytes`: for the keys and values of all sessions. `own`: drafts in streams; without it, streams yield one token
    a round. `text`: serves completions to other clients. `deliveries`, `tokenizer`: what devices may fetch. Raises
    `BadOrigin`.
    """
    deliveries = deliveries or Deliveries()
    card = msgspec.structs.replace(card, drafts=isinstance(own, OwnDrafter), while_away=options.while_away)
    learning = beside if isinstance(beside, Learning) else None
    sessions = Sessions(
        engine,
        card.limits,
        frozenset(card.stop_tokens),
        max_sessions=options.max_sessions,
        max_bytes=max_bytes,
        own=own,
        learning=learning,
    )
    turns = Turns(options.max_waiting, engine, None if beside is None else beside.quiet)
    admission, metrics = Admission(options), Metrics(by_holder=options.metrics_by_holder)
    turns.behind = sessions.table.away
    absence = Absence(sessions, turns, admission, options.while_away)
    completions = None if text is None else Completions(sessions, card, text, turns, options.max_wait)
    line = None if completions is None else completions.line
    service = Service(sessions, card, turns, admission, metrics, deliveries, absence, line)
    origins = web_origins(options.allow_origin, options.tokens)
    app = Starlette(
        routes=[
            *([] if completions is None else _completion_routes(completions)),
            *(route for delivery in (deliveries, tokenizer) if delivery is not None for route in delivery.routes()),
            *_service_routes(service),
        ],
        middleware=[
            Middleware(BearerAuth, tokens=options.tokens, hosts=options.allow_host, origins=origins),
            Middleware(Gate, admission=admission, metrics=metrics),
        ],
        exception_handlers={**HANDLERS, RoundRefused: service.refuse},
    )
    return VerifierApp(open_to_pages(app, origins), app.routes, service, beside)


def _service_routes(service: Service) -> list[Route]:
    return [
        Route("/v1/card", service.card),
        Route("/v1/rounds", service.rounds, methods=["POST"]),
        Route("/v1/streams", service.streams, methods=["POST"]),
        Route("/v1/proposals", service.proposals, methods=["POST"]),
        Route("/v1/streams/{name}", service.resume, methods=["GET"]),
        Route("/v1/streams/{name}", service.stop, methods=["DELETE"]),
        Route("/v1/sessions/{name}", service.drop, methods=["DELETE"]),
        Route("/healthz", service.health),
        Route("/readyz", service.ready),
        Route("/metrics", service.metrics),
    ]


def _completion_routes(completions: Completions) -> list[Route]:
    async def read(request: Request) -> bytes:
        encoding = request.headers.get("content-encoding", "identity")
        if encoding.strip().lower() not in ("", "identity"):
            raise HTTPException(415, f"compressed bodies are not supported ({encoding}); send them uncompressed.")
        return await _read(request, completions.max_body_bytes)

    async def chat(request: Request) -> Response:
        return await completions.chat(await read(request), request.is_disconnected, holder_of(request))

    async def text(request: Request) -> Response:
        return await completions.text(await read(request), request.is_disconnected, holder_of(request))

    async def models(request: Request) -> Response:
        return completions.models()

    async def model(request: Request) -> Response:
        return completions.model(request.path_params["name"])

    return [
        Route("/v1/chat/completions", chat, methods=["POST"]),
        Route("/v1/completions", text, methods=["POST"]),
        Route("/v1/models", models),
        Route("/v1/models/{name:path}", model),
    ]


class Service:
    """The endpoints. Only the engine's thread touches `sessions`, except for its counters."""

    def __init__(
        self,
        sessions: Sessions,
        card: Card,
        turns: Turns,
        admission: Admission,
        metrics: Metrics,
        deliveries: Deliveries,
        absence: Absence,
        line: Line | None,
    ) -> None:
        """`line`: where completions wait, if they are served."""
        self.sessions, self._card, self._deliveries, self._absence = sessions, card, deliveries, absence
        self.turns, self.admission, self.requests, self._line = turns, admission, metrics, line
        self._counts = ServiceCollector(sessions, turns, admission, card.target)

    async def card(self, request: Request) -> Response:
        card = self._card
        if card.drafter is not None:
            offer = self._deliveries.offer(holder_of(request), card.drafter)
            card = msgspec.structs.replace(card, drafter=offer)
        return reply_of(card)

    def draft_with(self, own: OwnDrafter, memory: MemoryFormat, offer: DrafterOffer | None) -> None:
        """Draft with `own` in new sessions, and offer it to devices from their next connection on.

        Only for a server that had no drafter so far, so that no device holds memory made for a different one. Any
        thread may call this, because each assignment stands by itself.
        """
        self.sessions.own = own
        self._card = msgspec.structs.replace(self._card, drafts=True, memory=memory, drafter=offer)

    async def rounds(self, request: Request) -> Response:
        message, holder = await self._admitted(request, Round, _name)
        return await self._answer(request, message, self.sessions.round(message, holder))

    async def streams(self, request: Request) -> Response:
        message, holder = await self._admitted(request, Stream, _name)
        return await self._answer(request, message, self.sessions.stream(message, holder))

    async def resume(self, request: Request) -> Response:
        """Serve the tokens of a stream that were, or still are being, written while its device was away."""
        name, position = _name(holder_of(request), request.path_params["name"]), _asked(request, "from")
        writing = self._absence.find(name, _asked(request, "round"), position)
        if writing is None:
            return error_reply(request, "not_found", "That stream is not kept, or not from that token on.")
        self.admission.read_on(record_of(request.scope), name)
        frames = self._absence.since(name, writing, position)
        return _streamed(frames, frames.aclose, alive=True)

    async def stop(self, request: Request) -> Response:
        """End a stream whose device wants no more of it."""
        name = _name(holder_of(request), request.path_params["name"])
        if self._absence.forget(name, _asked(request, "round")):
            return Response(status_code=204)
        return error_reply(request, "not_found", "There is no such stream; it may have ended before.")

    async def proposals(self, request: Request) -> Response:
        message, holder = await self._admitted(request, Propose, _proposals)
        answer = propose(self.sessions, message, holder, record_of(request.scope))
        found = await self.turns.first(message.session, answer, request.is_disconnected)
        assert isinstance(found, Proposed)
        return reply_of(found)

    async def _admitted(
        self, request: Request, kind: type[Message], name: Callable[[str, str], str]
    ) -> tuple[Message, str]:
        """The message of a request, for the session of this `name`, and its holder. Raises `NotAdmitted`."""
        limits, holder = self._card.limits, holder_of(request)
        message = decode(await _read(request, limits.max_body_bytes), kind)
        message = msgspec.structs.replace(message, session=name(holder, message.session))
        self.admission.go_on(record_of(request.scope), holder, message.session, _length(message), limits.max_tokens)
        return message, holder

    async def _answer(self, request: Request, message: Round | Stream, frames: Answer) -> Response:
        name = message.session
        self._absence.went_on(name)
        if isinstance(message, Stream) and message.resumable and self._absence.most:
            writing = Writing(holder_of(request), message.round, _length(message))
            await self._absence.begin(name, writing, frames, request.is_disconnected)
            sent = self._absence.frames(writing)
            return _streamed(sent, lambda: self._absence.leave(name, writing), alive=message.alive)
        first = await self.turns.first(name, frames, request.is_disconnected)
        alive = isinstance(message, Stream) and message.alive
        return _streamed(self.turns.rest(name, first, frames), lambda: self.turns.close(name, frames), alive=alive)

    async def drop(self, request: Request) -> Response:
        holder, session, dropped = holder_of(request), request.path_params["name"], False
        self._absence.forget(_name(holder, session))
        for one in (_name(holder, session), _proposals(holder, session)):
            self.admission.ended(one)
            dropped |= await self.turns.take(one, partial(self.sessions.drop, one))
        if dropped:
            return Response(status_code=204)
        return error_reply(request, "not_found", "There is no such session; it may have been dropped before.")

    async def health(self, request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def ready(self, request: Request) -> Response:
        """Whether the server can take a request now: 200, or 503 with the reasons why it should go elsewhere."""
        reasons = list[str]()
        if self.admission.draining:
            reasons.append("the server is shutting down")
        if (seconds := self.turns.stuck_seconds) > STUCK_SECONDS:
            reasons.append(f"the engine has finished nothing for {seconds:.0f} s")
        if self.turns.waiting >= self.turns.max_waiting or (self._line is not None and self._line.full):
            reasons.append("the queue is full")
        if reasons:
            return PlainTextResponse("".join(f"{reason}\n" for reason in reasons), 503, {"Retry-After": "1"})
        return PlainTextResponse("ready\n")

    async def metrics(self, request: Request) -> Response:
        """The counters as Prometheus text."""
        return Response(page(self._counts, self.requests), media_type=METRICS)

    async def refuse(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, RoundRefused)
        if isinstance(error, UnknownPrefix):
            return reply_of(error.conflict, 409)
        if isinstance(error, NotAdmitted):
            self.requests.refused.labels(error.reason).inc()
            return refusal(request.scope["path"], error)
        self._counts.refusals += STATUS[error.code] == 503
        seconds = error.seconds if isinstance(error, Overloaded) else 1
        return error_reply(request, error.code, str(error), retry=error.retry, seconds=seconds, refused=error)


def _name(holder: str, session: str) -> str:
    """The name of a holder's session, so that nobody can continue another holder's."""
    return session if holder == EVERYONE else f"{holder}/{session}"


def _length(message: Round | Stream | Propose) -> int:
    """The number of tokens in the session, including those of the message."""
    return message.base + len(message.append) // TOKEN_BYTES


def _proposals(holder: str, session: str) -> str:
    """Never a session of rounds or streams, whose tokens would change while they run."""
    return f"{_name(holder, session)}/proposals"


def _asked(request: Request, name: str) -> int:
    """A number in the query of a request. Raises `HTTPException`."""
    said = request.query_params.get(name, "")
    if not said.isascii() or not said.isdigit() or len(said) > MOST_DIGITS:
        raise HTTPException(400, f"{name} must be a number, as in ?{name}=12.")
    return int(said)


def _streamed(
    frames: AsyncGenerator[Frame, None], close: Callable[[], Awaitable[None]], *, alive: bool = False
) -> Response:
    """The frames as they come. `close`: called at the end. `alive`: send signs of life."""
    signs = encode_frame(Alive(seconds=ALIVE_SECONDS))

    async def body() -> AsyncGenerator[bytes, None]:
        sign = signs if alive else b""
        try:
            async for frame in frames:
                yield encode_frame(frame) + sign
                sign = b""
        except (RoundRefused, EngineError) as error:
            raise Cut(str(error)) from None

    signed = kept_alive(body(), ALIVE_SECONDS, signs) if alive else body()
    return Streamed(signed, close, headers=STREAM_HEADERS, media_type=CONTENT_TYPE)


SHORTEN = "Send a shorter conversation: that is more than the model reads."
"""Advice for a body that is too large, whose limit follows from the longest conversation."""


async def _read(request: Request, limit: int) -> bytes:
    """Read the whole body. Raises `TooLarge` as soon as it is known to exceed `limit` bytes."""
    announced = request.headers.get("content-length", "0")
    if not announced.isdecimal() or int(announced) > limit:
        raise TooLarge(f"The body has {announced} bytes; this server accepts {limit}. {SHORTEN}")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise TooLarge(f"The body has more than {limit} bytes, the most that this server accepts. {SHORTEN}")
    return bytes(body)
