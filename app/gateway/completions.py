"""Chat completions: answers of the assistant in OpenAI's format, with a field `outrider` for who wrote what."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import msgspec
from starlette.responses import Response

from app.gateway.answers import Answers, State
from app.gateway.call import Call, read_call
from app.gateway.checks import Checks
from app.gateway.exchange import Exchange
from app.gateway.refusals import GatewayRefused, refused
from app.gateway.seats import Seats
from app.gateway.sent_text import By, Piece, Span
from remote.openai.schema import (
    DONE,
    EVENTS,
    GATEWAY_OWNER,
    JSON,
    OWNER,
    ChatMessage,
    Choice,
    Chunk,
    ChunkChoice,
    Completion,
    Delta,
    Model,
    Models,
    Usage,
)
from remote.openai.sse import COMMENT, QUIET_SECONDS, event
from remote.tasks import kept_alive
from remote.verifier.stream_response import STREAM_HEADERS, Streamed

SOURCE = "x-outrider-source"
"""Header with the source of the first text, or of a whole answer."""
ANSWER = "x-outrider-answer"
"""Header with the path of the answer's report."""


class Marks(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The field `outrider` of a chunk, or of a whole answer."""

    source: By
    """Which model vouches for this text. For a whole answer: `drafted` if any of it is only drafted."""
    spans: tuple[Span, ...] = ()
    checked: int
    """Characters of the answer, from the first, that the model has written or confirmed."""
    state: State | None = None
    """At the end of an answer."""
    answer: str = ""
    """At the end of an answer: the path of its report."""
    system_unread: bool = False
    """Set if the model reads no system messages, so that those of the request had no effect."""


class MarkedChunk(Chunk, frozen=True, kw_only=True):
    outrider: Marks


class MarkedCompletion(Completion, frozen=True, kw_only=True):
    outrider: Marks


class Completions:
    """The endpoint for chat completions, and the list of models."""

    def __init__(self, seats: Seats, answers: Answers, checks: Checks, quiet_seconds: float = QUIET_SECONDS) -> None:
        """`quiet_seconds`: silence after which a stream sends a sign of life."""
        self._seats, self._answers, self._checks = seats, answers, checks
        self._quiet_seconds = quiet_seconds
        self._since = int(time.time())
        self._target = ""
        """Name of the last model that was available; empty if none was."""

    # ---- models ------------------------------------------------------------------------------------------------------

    async def models(self) -> tuple[Model, ...]:
        """The model names that a request may give: the gateway's own, which is always valid, and that of the model."""
        await self._seats.first.settled()
        names = dict.fromkeys(filter(None, (OWNER, self._model_name())))
        most = self._seats.first.backend.routing.most_read
        return tuple(Model(id=name, created=self._since, owned_by=GATEWAY_OWNER, max_model_len=most) for name in names)

    async def model_list(self) -> Response:
        return _json(Models(object="list", data=await self.models()))

    async def model(self, name: str) -> Response:
        """The model with that name. Raises `GatewayRefused`."""
        for model in await self.models():
            if model.id == name:
                return _json(model)
        raise self._unknown(name)

    def _model_name(self) -> str:
        status, local = self._seats.first.status(), self._seats.first.standing_by
        if status.mode != "offline" or local is None or status.model != local.name:  # Its name is not the server's.
            self._target = status.model or self._target
        return self._target

    def _check_model(self, name: str) -> None:
        """Raises `GatewayRefused` for the name of another model. While no model is known, any name is accepted."""
        target = self._model_name()
        if name and target and name not in (OWNER, target):
            raise self._unknown(name)

    def _unknown(self, name: str) -> GatewayRefused:
        known = " or ".join(dict.fromkeys(f"{one!r}" for one in (OWNER, self._target) if one))
        return GatewayRefused(
            f"There is no model {name!r} here; ask for {known}.", "model", status=404, code="model_not_found"
        )

    # ---- answers -----------------------------------------------------------------------------------------------------

    async def answer(self, body: bytes) -> Response:
        """Answer a request. Cancel this call if the client disconnects before. Raises `GatewayRefused`."""
        call = await asyncio.to_thread(read_call, body)
        self._check_model(call.model)
        # In a thread, and before anything is stored, because storing and rendering may take seconds.
        if (failed := await asyncio.to_thread(self._seats.first.backend.too_long, call.turns)) is not None:
            raise refused(failed)
        answer = self._answers.begin(call, self._seats.first.status().model or self._target or call.model or OWNER)
        exchange = Exchange(self._seats, self._checks, answer)
        try:
            if call.stream and not await exchange.begins(self._quiet_seconds):
                return self._stream(exchange, _events(exchange, call), None)
            first = await exchange.next()
            if first is None or not call.stream:
                return await self._whole(exchange, first)
        except BaseException:
            await exchange.close()
            raise
        return self._stream(exchange, _events(exchange, call, [first]), first.span.source)

    def _stream(self, exchange: Exchange, events: AsyncGenerator[bytes, None], source: By | None) -> Response:
        """The answer as a stream. `source`: of its first text, as far as it is known."""
        headers = {**STREAM_HEADERS, ANSWER: exchange.answer.place, **({SOURCE: source} if source else {})}
        alive = kept_alive(events, self._quiet_seconds, COMMENT)
        return Streamed(alive, exchange.close, headers=headers, media_type=EVENTS)

    async def _whole(self, exchange: Exchange, first: Piece | None) -> Response:
        """The answer as one body, or as a stream if it has no text at all."""
        answer, piece = exchange.answer, first
        while piece is not None:
            piece = await exchange.next()
        if exchange.writer is not None and exchange.writer.failed is not None:
            raise refused(exchange.writer.failed)
        if answer.call.stream:
            return self._stream(exchange, _events(exchange, answer.call), answer.sent.source)
        message = ChatMessage(role="assistant", content=answer.sent.text)
        choice = Choice(message=message, finish_reason=exchange.finish)
        made = MarkedCompletion(
            id=answer.id,
            created=answer.created,
            model=answer.model,
            choices=(choice,),
            usage=exchange.usage,
            outrider=_marks(exchange, spans=True),
        )
        response = _json(made)
        response.headers.update({SOURCE: answer.sent.source, ANSWER: answer.place})
        return response


async def _events(exchange: Exchange, call: Call, taken: Sequence[Piece] = ()) -> AsyncGenerator[bytes, None]:
    """The answer as server-sent events, with its error if it fails. `taken`: its first pieces, if they were read."""
    try:
        async with aclosing(_chunks(exchange, call, taken)) as chunks:
            async for chunk in chunks:
                yield event(chunk)
    except GatewayRefused as error:
        yield event(error.body)
        return
    yield event(DONE.encode())


async def _chunks(exchange: Exchange, call: Call, taken: Sequence[Piece]) -> AsyncGenerator[bytes, None]:
    waiting, sent, role = list(taken), exchange.answer.sent, "assistant"
    while (piece := waiting.pop(0) if waiting else await exchange.next()) is not None:
        marks = Marks(source=piece.span.source, spans=(piece.span,), checked=sent.checked)
        yield _chunk(exchange, Delta(role=role or None, content=piece.text), marks)
        role = ""
    if exchange.writer is not None and exchange.writer.failed is not None:
        raise refused(exchange.writer.failed)
    yield _chunk(exchange, Delta(role=role or None), _marks(exchange), exchange.finish)
    if call.counts:
        yield _chunk(exchange, None, _marks(exchange), usage=exchange.usage)


def _marks(exchange: Exchange, *, spans: bool = False) -> Marks:
    """The marks of the whole answer at its end."""
    answer, writer = exchange.answer, exchange.writer
    return Marks(
        source=answer.sent.source,
        spans=tuple(answer.sent.spans) if spans else (),
        checked=answer.sent.checked,
        state=answer.state,
        answer=answer.place,
        system_unread=writer is not None and writer.system_unread,
    )


def _json(message: msgspec.Struct) -> Response:
    return Response(msgspec.json.encode(message), media_type=JSON)


def _chunk(
    exchange: Exchange, delta: Delta | None, marks: Marks, finish: str | None = None, usage: Usage | None = None
) -> bytes:
    choices = () if delta is None else (ChunkChoice(delta=delta, finish_reason=finish),)
    made = MarkedChunk(
        id=exchange.answer.id,
        created=exchange.answer.created,
        model=exchange.model,
        choices=choices,
        usage=usage,
        outrider=marks,
    )
    return msgspec.json.encode(made)
