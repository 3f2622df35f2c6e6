"""`POST /v1/chat/completions`: answers in OpenAI's format, with a field `outrider` for who wrote what."""

from __future__ import annotations

import msgspec

from app.gateway.answers import State
from app.gateway.call import Call
from app.gateway.exchange import Exchange
from app.gateway.refusals import GatewayRefused
from app.gateway.sent_text import By, Piece, Span
from remote.openai.schema import DONE, ChatMessage, Choice, Chunk, ChunkChoice, Completion, Delta, Usage
from remote.openai.sse import event


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


class ChatApi:
    def __init__(self, call: Call) -> None:
        self.call = call
        self._role: str | None = "assistant"
        """The role, until it has been sent."""

    def opening(self, exchange: Exchange) -> bytes:
        return b""

    def piece(self, exchange: Exchange, piece: Piece) -> bytes:
        marks = Marks(source=piece.span.source, spans=(piece.span,), checked=exchange.answer.sent.checked)
        return event(self._chunk(exchange, marks, piece))

    def ending(self, exchange: Exchange) -> bytes:
        end = event(self._chunk(exchange, marks_of(exchange), finish=exchange.finish))
        if self.call.counts:
            end += event(self._chunk(exchange, marks_of(exchange), usage=exchange.usage))
        return end + event(DONE.encode())

    def failed(self, exchange: Exchange, error: GatewayRefused) -> bytes:
        return event(error.body)

    def whole(self, exchange: Exchange) -> bytes:
        answer, calls = exchange.answer, exchange.calls
        content = None if calls and not answer.sent.text else answer.sent.text
        message = ChatMessage("assistant", content, calls or msgspec.UNSET)
        made = MarkedCompletion(
            id=answer.id,
            created=answer.created,
            model=answer.model,
            choices=(Choice(message=message, finish_reason=exchange.finish),),
            usage=exchange.usage,
            outrider=marks_of(exchange, spans=True),
        )
        return msgspec.json.encode(made)

    def _chunk(
        self,
        exchange: Exchange,
        marks: Marks,
        piece: Piece | None = None,
        finish: str | None = None,
        usage: Usage | None = None,
    ) -> bytes:
        """A piece of the answer, or its end, or its `usage`."""
        choices: tuple[ChunkChoice, ...] = ()
        if usage is None:
            content = None if piece is None or piece.calls else piece.text
            role, self._role = self._role, None
            delta = Delta(role=role, content=content, tool_calls=() if piece is None else piece.calls)
            choices = (ChunkChoice(delta=delta, finish_reason=finish),)
        answer = exchange.answer
        made = MarkedChunk(
            id=answer.id, created=answer.created, model=exchange.model, choices=choices, usage=usage, outrider=marks
        )
        return msgspec.json.encode(made)


def marks_of(exchange: Exchange, *, spans: bool = False) -> Marks:
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
