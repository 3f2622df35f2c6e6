"""Seats: a bounded number of assistants, each of which writes one answer at a time. Requests wait for a free one.

All seats share one drafter and one source. Each has its own database in memory, so other programs' conversations are
neither on disk nor in the person's history.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Self

import msgspec

from app.config import Settings
from app.gateway.call import Call
from app.gateway.conversations import Conversations
from app.remotes.loopback import Loopback
from app.reply.assistant import Assistant
from app.reply.routing import Options
from remote.verifier.completions.line import Line
from storage import Store
from storage.database import MEMORY


class Seat:
    """An assistant for one answer at a time, with the conversations that it has answered."""

    def __init__(self, options: Options) -> None:
        self.store = Store.open(MEMORY)
        self.conversations = Conversations(self.store)
        self._options = options
        self.assistant = Assistant(self.store, options)
        self.taken = False
        """Whether a request has it, or waits until the check in progress has stopped."""
        self.checking = False
        self.lock = asyncio.Lock()
        """Held by the answer or the check that uses the assistant."""
        self.settings = options.settings
        self._alone: Assistant | None = None

    @property
    def alone(self) -> Assistant:
        """An assistant for the same conversations that uses no server; its drafter writes instead."""
        if self._alone is None:
            offline = msgspec.structs.replace(self.settings, mode="offline")
            routing, source = self.assistant.backend.routing, self._options.source
            options = dataclasses.replace(
                self._options,
                source=None if isinstance(source, Loopback) else source,
                settings=offline,
                most_read=lambda: routing.most_read,
            )
            self._alone = Assistant(self.store, options)
        return self._alone

    async def close(self) -> None:
        """Release the server, and forget every conversation."""
        self.assistant.stop()
        async with self.lock:
            await self.assistant.close()
            if self._alone is not None:
                await self._alone.close()
        self.store.close()


class Seats:
    """Opens seats as they are needed, at most `most`. At most `waiting` requests wait for one.

    The server of the `options` is closed at the end.
    """

    def __init__(self, options: Options, *, most: int, waiting: int) -> None:
        self.line = Line(most, waiting)
        self.all: list[Seat] = []
        self._options = options
        if options.source is not None:
            options.source.shared = True

    @property
    def settings(self) -> Settings:
        return self._options.settings

    @property
    def first(self) -> Assistant:
        """An assistant that knows who answers."""
        return self.all[0].assistant

    async def __aenter__(self) -> Self:
        self._open().assistant.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for seat in self.all:
            await seat.close()
        if self._options.source is not None:
            await self._options.source.close()

    @contextlib.asynccontextmanager
    async def seat(self, call: Call, gone: Callable[[], Awaitable[bool]]) -> AsyncIterator[Seat]:
        """A seat for a request while the block runs; if free, the one that knows its conversation.

        Raises `Overloaded` if too many wait, `ClientDisconnect` if the client is `gone` before its turn.
        """
        async with self.line.place(gone):
            seat = self._choose(call)
            seat.taken = True
            try:
                if seat.checking:  # A check can wait, and is repeated.
                    seat.assistant.stop()
                async with seat.lock:
                    yield seat
            finally:
                seat.taken = False

    def _choose(self, call: Call) -> Seat:
        free = [seat for seat in self.all if not seat.taken]
        known = [seat for seat in free if seat.conversations.knows(call)]
        idle = [seat for seat in free if not seat.checking]
        if known or idle:
            return (known or idle)[0]
        # The line admits no more than there are seats: if none is free, another one may be opened.
        return self._open() if len(self.all) < self.line.places else free[0]

    def _open(self) -> Seat:
        seat = Seat(self._options)
        self.all.append(seat)
        return seat
