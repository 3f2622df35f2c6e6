"""Answers of the assistant to requests of other programs, whole or as a stream, and the list of models."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Protocol

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from app.gateway.answers import Answers
from app.gateway.call import Call
from app.gateway.checks import Checks
from app.gateway.exchange import Exchange
from app.gateway.refusals import GatewayRefused, refused
from app.gateway.seats import Seats
from app.gateway.sent_text import By, Piece
from remote.openai.schema import EVENTS, GATEWAY_OWNER, JSON, OWNER, Model, Models
from remote.openai.sse import COMMENT, QUIET_SECONDS
from remote.tasks import kept_alive
from remote.verifier.stream_response import STREAM_HEADERS, Streamed

SOURCE = "x-outrider-source"
"""Header with the source of the first text, or of a whole answer."""
ANSWER = "x-outrider-answer"
"""Header with the path of the answer's report."""


class Api(Protocol):
    """One request in one of the APIs, and the shapes of its answer there."""

    call: Call

    def opening(self, exchange: Exchange) -> bytes:
        """The events of a stream before its first piece; may be empty."""

    def piece(self, exchange: Exchange, piece: Piece) -> bytes:
        """The events of a piece."""

    def ending(self, exchange: Exchange) -> bytes:
        """The events after the last piece."""

    def failed(self, exchange: Exchange, error: GatewayRefused) -> bytes:
        """The events of a stream that ends with an error."""

    def whole(self, exchange: Exchange) -> bytes:
        """An answer that is not streamed."""


class Completions:
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

    async def model_list(self, request: Request) -> Response:
        return _json(Models(object="list", data=await self.models()))

    async def model(self, request: Request) -> Response:
        """The model with the name in the path. Raises `GatewayRefused`."""
        name = request.path_params["name"]
        for model in await self.models():
            if model.id == name:
                return _json(model)
        raise self._unknown(name)

    def _model_name(self) -> str:
        status, local = self._seats.first.status(), self._seats.first.standing_by
        if status.mode != "offline" or local is None or status.model != local.name:  # Its name is not the server's.
            self._target = status.model or self._target
        return self._target

    def _unknown(self, name: str) -> GatewayRefused:
        known = " or ".join(dict.fromkeys(f"{one!r}" for one in (OWNER, self._target) if one))
        return GatewayRefused(
            f"There is no model {name!r} here; ask for {known}.", "model", status=404, code="model_not_found"
        )

    async def count(self, fields: Mapping[str, Any]) -> Response:
        """How many tokens a request for chat has, counted with the small model's tokenizer."""
        text = self._seats.first.backend.routing.drafters.first.text
        said = msgspec.json.encode([fields.get("messages"), fields.get("tools") or []]).decode()
        return Response(
            msgspec.json.encode({"input_tokens": await asyncio.to_thread(text.length, said)}), media_type=JSON
        )

    # ---- answers -----------------------------------------------------------------------------------------------------

    async def answer(self, api: Api) -> Response:
        """Answer a request. Cancel this call if the client disconnects before. Raises `GatewayRefused`."""
        call = api.call
        target = self._model_name()
        if target and call.model not in ("", OWNER, target):  # While no model is known, any name is accepted.
            raise self._unknown(call.model)
        # In a thread, and before anything is stored, because storing and rendering may take seconds.
        too_long = None if call.relayed else await asyncio.to_thread(self._seats.first.backend.too_long, call.turns)
        if too_long is not None:
            raise refused(too_long)
        answer = self._answers.begin(call, self._seats.first.status().model or self._target or call.model or OWNER)
        exchange = Exchange(self._seats, self._checks, answer)
        try:
            if call.stream and not await exchange.begins(self._quiet_seconds):
                return self._stream(exchange, _events(exchange, api), None)
            first = await exchange.next()
            if first is None or not call.stream:
                return await self._whole(exchange, api, first)
        except BaseException:
            await exchange.close()
            raise
        return self._stream(exchange, _events(exchange, api, [first]), first.span.source)

    def _stream(self, exchange: Exchange, events: AsyncGenerator[bytes, None], source: By | None) -> Response:
        """The answer as a stream. `source`: of its first text, as far as it is known."""
        headers = {**STREAM_HEADERS, ANSWER: exchange.answer.place, **({SOURCE: source} if source else {})}
        alive = kept_alive(events, self._quiet_seconds, COMMENT)
        return Streamed(alive, exchange.close, headers=headers, media_type=EVENTS)

    async def _whole(self, exchange: Exchange, api: Api, first: Piece | None) -> Response:
        """The answer as one body, or as a stream if it has no text at all."""
        answer, piece = exchange.answer, first
        while piece is not None:
            piece = await exchange.next()
        if exchange.writer is not None and exchange.writer.failed is not None:
            raise refused(exchange.writer.failed)
        if answer.call.stream:
            return self._stream(exchange, _events(exchange, api), answer.sent.source)
        response = Response(api.whole(exchange), media_type=JSON)
        response.headers.update({SOURCE: answer.sent.source, ANSWER: answer.place})
        return response


async def _events(exchange: Exchange, api: Api, taken: Sequence[Piece] = ()) -> AsyncGenerator[bytes, None]:
    """The answer as server-sent events, with its error if it fails. `taken`: its first pieces, if they were read."""
    waiting = list(taken)
    if opening := api.opening(exchange):
        yield opening
    try:
        while (piece := waiting.pop(0) if waiting else await exchange.next()) is not None:
            yield api.piece(exchange, piece)
        if exchange.writer is not None and exchange.writer.failed is not None:
            raise refused(exchange.writer.failed)
    except GatewayRefused as error:
        yield api.failed(exchange, error)
        return
    yield api.ending(exchange)


def _json(message: msgspec.Struct) -> Response:
    return Response(msgspec.json.encode(message), media_type=JSON)
