"""Writes one answer: the assistant's events in, pieces that may be sent out.

While the server is available, only confirmed text is sent. While it is away, the text of a model on this device is
sent, and marked. When the server is back, the model reads what was sent, and continues from there if it agrees. If not,
the small model completes the answer, because text that a client has received cannot be withdrawn, and the model's own
answer is reported afterwards (`app/gateway/checks.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec

from app.events import (
    Done,
    Drafted,
    Event,
    Failed,
    ModeChanged,
    ReplyText,
    RoundEnded,
    Started,
    Stats,
    Stretch,
    SystemUnread,
)
from app.gateway.answers import Answer
from app.gateway.seats import Seat
from app.gateway.sent_text import Piece
from storage import Message

PARTED = "The server continued with a text that differs from what had been sent before the connection broke. Ask again."


class Writer:
    """One answer while it is being written in a seat."""

    def __init__(self, answer: Answer, seat: Seat) -> None:
        self._answer, self._seat = answer, seat
        self._text = ReplyText()
        self._alone = False
        """Whether the drafter writes without being checked."""
        self._hosted = False
        self._drafted: Message | None = None
        """The answer as the drafter had left it when the server came back."""
        self.done: Done | None = None
        self.failed: Failed | None = None
        self.tokens = 0
        """Tokens of the answer, whoever wrote them."""
        self.system_unread = False
        """Whether the model does not read the system messages."""

    @property
    def stats(self) -> Stats:
        return self._text.stats

    async def pieces(self) -> AsyncGenerator[Piece, None]:
        """The pieces of the answer, as they become final. Leaving early stops the answer.

        Raises `StorageError` if the question cannot be stored.
        """
        answer, seat = self._answer, self._seat
        pending = await asyncio.to_thread(seat.conversations.ask, answer.call)
        async with aclosing(self._follow(seat.assistant.answer(pending))) as pieces:
            async for piece in pieces:
                yield piece
        if answer.sent.parted and (events := self._rest()) is not None:
            answer.sent.parted = False  # The drafter completes it.
            async with aclosing(self._follow(events)) as pieces:
                async for piece in pieces:
                    yield piece
        if answer.message:
            stored = seat.store.messages.get(answer.message)
            self.tokens = await asyncio.to_thread(self._count, stored) or self.stats.streamed or 0
            seat.conversations.remember(answer.call, answer.sent.text, stored)
        if self.done is not None and self.done.model:
            answer.model = self.done.model
        answer.end(failed="" if self.failed is None else self.failed.message)

    async def _follow(self, events: AsyncGenerator[Event, None]) -> AsyncGenerator[Piece, None]:
        """The pieces of one reply, until it ends, a stop string occurs, or the model parts from what was sent."""
        sent, self._text = self._answer.sent, ReplyText()
        self.done = self.failed = None
        async with aclosing(events):
            async for event in events:
                self._text.apply(event)
                for piece in self._taken(event):
                    yield piece
                if sent.stopped or sent.parted:
                    return

    def _taken(self, event: Event) -> list[Piece]:
        text, sent = self._text, self._answer.sent
        if isinstance(event, Started):
            self._answer.message = event.message
        elif isinstance(event, SystemUnread):
            self.system_unread = True
        elif isinstance(event, Stretch):
            sent.written_by(event.at, event.writer if event.here else "")
            return []
        elif isinstance(event, ModeChanged):
            self._mode(event)
            return []
        elif isinstance(event, Done | Failed):
            self.done = event if isinstance(event, Done) else None
            self.failed = event if isinstance(event, Failed) else None
            end_drafted = self.done is not None and not all(self.done.provenance)
            return sent.take(text.solid, text.ghost, hosted=self._hosted, complete=True, end_drafted=end_drafted)
        # A guess may stay on the screen when the drafter takes over; what it really wrote is known with its next word.
        # An answer that is sent as a whole can wait: if the server returns before its end, the model may change it.
        final = self._alone and isinstance(event, Drafted | RoundEnded) and self._answer.call.stream
        return sent.take(text.solid, text.ghost if final else "", hosted=self._hosted)

    def _mode(self, event: ModeChanged) -> None:
        if event.mode == "warming":
            return
        if self._alone and event.mode != "offline" and self._answer.sent.drafted:
            self._drafted = self._seat.store.messages.get(self._answer.message)
        self._alone, self._hosted = event.mode == "offline", event.mode == "hosted" and not event.checks

    def _count(self, stored: Message) -> int:
        """Tokens of the answer. Tokens after a stop string do not count."""
        sent = self._answer.sent
        return self._seat.assistant.backend.tokens_within(stored, sent.read) if sent.stopped else len(stored.tokens)

    def _rest(self) -> AsyncGenerator[Event, None] | None:
        """The drafter's completion of an answer that the model has parted from, or None if it may write no more."""
        drafted, seat, choices = self._drafted, self._seat, self._answer.call.choices
        if drafted is None:
            self.failed = Failed(PARTED, "broken")
            return None
        most = choices.max_tokens or seat.settings.max_tokens
        left = None if most is None else most - len(drafted.tokens)
        if left is not None and left < 1:
            return None
        store = seat.store
        stats = store.messages.get(drafted.id).stats
        beside = store.messages.add(
            drafted.conversation_id, "assistant", "", parent_id=drafted.parent_id, status="pending"
        )
        store.messages.finish(beside.id, drafted.tokens, drafted.provenance, drafted.text, "stopped", stats)
        store.conversations.choose(drafted.conversation_id, msgspec.structs.replace(choices, max_tokens=left))
        self._answer.message = beside.id
        return seat.alone.resume(beside.id)
