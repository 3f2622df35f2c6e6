"""Requests a check of text that the small model wrote alone, as soon as the server is back.

A check never keeps a client waiting: it stops for a request that needs its seat, and is repeated afterwards.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from contextlib import aclosing

from app.events import Done, Failed, Started
from app.gateway.answers import Answer
from app.gateway.seats import Seat
from app.remotes.peer import Verifier
from storage import StorageError

log = logging.getLogger("outrider.gateway")
PAUSE_SECONDS = (1.0, 60.0)
"""Shortest and longest pause after a check that failed although the server was available."""
NOBODY = "There is no server to check it: the gateway was started offline."
CHECKS_NOT = "The server checks no drafts."
FORGOTTEN = "Its conversation was dropped for newer ones before the server came back."


class Checks:
    """The answers that wait for the model, each in the seat that wrote it."""

    def __init__(self) -> None:
        self._tasks: dict[Seat, asyncio.Task[None]] = {}
        self._waiting: dict[Seat, deque[Answer]] = {}
        self._come: dict[Seat, asyncio.Event] = {}

    def add(self, seat: Seat, answer: Answer) -> None:
        """Schedule the check of a waiting answer."""
        if seat not in self._tasks:
            self._waiting[seat], self._come[seat] = deque(), asyncio.Event()
            self._tasks[seat] = asyncio.create_task(self._run(seat))
        self._waiting[seat].append(answer)
        self._come[seat].set()

    async def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _run(self, seat: Seat) -> None:
        waiting, failures = self._waiting[seat], 0
        while True:
            if not waiting:
                self._come[seat].clear()
                await self._come[seat].wait()
            answer = waiting[0]
            try:
                settled = await self._settled(seat, answer)
            except StorageError as error:
                answer.give_up(str(error))
                settled = True
            if settled:
                waiting.popleft()
                failures = 0
            else:
                failures += 1
                least, most = PAUSE_SECONDS
                await asyncio.sleep(min(most, least * 2.0 ** min(failures - 1, 10)))

    async def _settled(self, seat: Seat, answer: Answer) -> bool:
        """Check one answer when the server is available.

        Returns False if the check must be repeated. Raises `StorageError`.
        """
        if not seat.conversations.holds(_conversation(seat, answer)):
            answer.give_up(FORGOTTEN)
            return True
        connection = seat.assistant.backend.routing.connection_of(_conversation(seat, answer))
        if connection is None:
            answer.give_up(NOBODY)
            return True
        while connection.verifier is None:  # The connection retries by itself, at growing intervals.
            await connection.changed()
        while seat.taken:
            async with seat.lock:  # A request that holds it or waits for it goes first.
                pass
            await asyncio.sleep(0)
        async with seat.lock:
            seat.checking = True
            try:
                if not isinstance(connection.verifier, Verifier):
                    if connection.verifier is not None:
                        answer.give_up(CHECKS_NOT)
                    return connection.verifier is not None
                return await self._check(seat, answer)
            finally:
                seat.checking = False

    async def _check(self, seat: Seat, answer: Answer) -> bool:
        store, message = seat.store, ""
        failed: Failed | None = None
        done: Done | None = None
        conversation = store.messages.get(answer.message).conversation_id
        store.conversations.choose(conversation, answer.call.choices)
        async with aclosing(seat.assistant.verify(answer.message)) as events:
            async for event in events:
                if isinstance(event, Started):
                    message = event.message
                elif isinstance(event, Failed):
                    failed = event
                elif isinstance(event, Done):
                    done = event
        if failed is not None and failed.code not in ("unavailable", "broken"):
            answer.give_up(failed.message)
            return True
        if done is None or done.stopped or not all(done.provenance):
            return False
        answer.settle(store.messages.get(message).text, done.model)
        log.info("a drafted answer was checked: %s", answer.state)
        return True


def _conversation(seat: Seat, answer: Answer) -> str:
    """The conversation of an answer; empty if it is gone."""
    with contextlib.suppress(StorageError):
        return seat.store.messages.get(answer.message).conversation_id
    return ""
