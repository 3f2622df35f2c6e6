"""`POST /v1/completions`: continues plain text, if the server behind the gateway can."""

from __future__ import annotations

import msgspec

from app.gateway.apis.chat_api import Marks, marks_of
from app.gateway.call import NOT_HANDED_BACK, PLAIN_TEXT, Call
from app.gateway.exchange import Exchange
from app.gateway.refusals import GatewayRefused
from app.gateway.sent_text import Piece
from remote.openai.request_fields import (
    CHAT_ALONE,
    FieldRefused,
    prepared,
    read_fields,
    read_typed,
    refuse_fields,
    refuse_tools,
)
from remote.openai.schema import DONE, TextChoice, TextCompletion, TextRequest, Usage
from remote.openai.sse import event
from storage import Choices

REQUEST = prepared(TextRequest)


class MarkedText(TextCompletion, frozen=True, kw_only=True):
    outrider: Marks


def read_text(body: bytes) -> Call:
    """Read a request. Raises `GatewayRefused`."""
    try:
        given = read_fields(body)
        asked = read_typed(given, REQUEST, {**NOT_HANDED_BACK, "logprobs": ()})
        refuse_fields(given, CHAT_ALONE, "it is a field of chat, not of plain text")
        refuse_tools(given)
        if not isinstance(asked.prompt, str) and any(not isinstance(one, int) for one in asked.prompt[1:]):
            raise FieldRefused("Several prompts in one request are not supported. Send one request for each.", "prompt")
    except FieldRefused as error:
        raise GatewayRefused(str(error), error.param, code=error.reason) from None
    options = asked.stream_options
    return Call(
        (),
        Choices(),
        model=asked.model or "",
        stream=bool(asked.stream),
        counts=options is not None and bool(options.include_usage),
        relayed={name: value for name, value in given.items() if value is not None},
        path=PLAIN_TEXT,
    )


class TextApi:
    def __init__(self, call: Call) -> None:
        self.call = call

    def opening(self, exchange: Exchange) -> bytes:
        return b""

    def piece(self, exchange: Exchange, piece: Piece) -> bytes:
        marks = Marks(source=piece.span.source, spans=(piece.span,), checked=exchange.answer.sent.checked)
        return self._event(exchange, (TextChoice(0, piece.text),), marks)

    def ending(self, exchange: Exchange) -> bytes:
        end = self._event(exchange, (TextChoice(0, "", exchange.finish),), marks_of(exchange))
        if self.call.counts:
            end += self._event(exchange, (), marks_of(exchange), exchange.usage)
        return end + event(DONE.encode())

    def failed(self, exchange: Exchange, error: GatewayRefused) -> bytes:
        return event(error.body)

    def whole(self, exchange: Exchange) -> bytes:
        choice = TextChoice(0, exchange.answer.sent.text, exchange.finish)
        return msgspec.json.encode(self._made(exchange, (choice,), marks_of(exchange, spans=True), exchange.usage))

    def _event(
        self, exchange: Exchange, choices: tuple[TextChoice, ...], marks: Marks, usage: Usage | None = None
    ) -> bytes:
        return event(msgspec.json.encode(self._made(exchange, choices, marks, usage)))

    def _made(
        self, exchange: Exchange, choices: tuple[TextChoice, ...], marks: Marks, usage: Usage | None
    ) -> MarkedText:
        answer = exchange.answer
        name = answer.id.removeprefix("chat")
        return MarkedText(
            id=name, created=answer.created, model=exchange.model, choices=choices, usage=usage, outrider=marks
        )
