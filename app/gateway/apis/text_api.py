"""`POST /v1/completions`: continues plain text, if the server behind the gateway can."""

from __future__ import annotations

import msgspec

from app.gateway.apis.chat_api import ChatApi, Marks, marks_of
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
from remote.openai.schema import TextChoice, TextCompletion, TextRequest, Usage
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


class TextApi(ChatApi):
    """The events of chat, each with plain text."""

    def whole(self, exchange: Exchange) -> bytes:
        choice = TextChoice(0, exchange.answer.sent.text, exchange.finish)
        return _encoded(exchange, (choice,), marks_of(exchange, spans=True), exchange.usage)

    def _chunk(
        self,
        exchange: Exchange,
        marks: Marks,
        piece: Piece | None = None,
        finish: str | None = None,
        usage: Usage | None = None,
    ) -> bytes:
        choice = TextChoice(0, "" if piece is None else piece.text, finish)
        return _encoded(exchange, (choice,) if usage is None else (), marks, usage)


def _encoded(exchange: Exchange, choices: tuple[TextChoice, ...], marks: Marks, usage: Usage | None) -> bytes:
    answer, name = exchange.answer, exchange.answer.id.removeprefix("chat")
    made = MarkedText(
        id=name, created=answer.created, model=exchange.model, choices=choices, usage=usage, outrider=marks
    )
    return msgspec.json.encode(made)
