"""What waits for the target, and when it is sent: questions asked without a line, and answers to be verified.

All of it is in the database. The outbox says what is due, and keeps a verifier that fails from being asked the same
again and again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Coroutine, Sequence
from typing import Any, Protocol

from app.concurrency import first_of
from app.events import Event, Failed
from app.remotes.connection import Connection
from app.remotes.peer import Endpoint, Peer
from remote.clock import CLOCK, Clock
from storage import Attachment, Message, Queued, StorageError, Store

LOOK_SECONDS = 30.0
"""Pause between two looks for what another program has queued."""
RETRY_SECONDS = (1.0, 300.0)
"""Least and longest pause before what failed is sent again. It doubles each time: some servers charge for each try."""


class Answerer(Protocol):
    """Who answers what is due: the assistant."""

    @property
    def store(self) -> Store:
        """The store that has the queue."""

    @property
    def replying(self) -> bool:
        """A reply runs, so nothing else is sent."""

    def start(self) -> None:
        """Begin to connect."""

    def no_verifier(self) -> Failed | None:
        """Why nothing can be sent now; None: it can."""

    def verify(self, message_id: str) -> AsyncGenerator[Event, None]:
        """The events of an answer that is verified."""

    def answer(self, message: Message, *, waits: bool) -> AsyncGenerator[Event, None]:
        """The events of the answer that a pending message becomes."""


class Outbox:
    """The queue of `assistant`. While `connection` is None, nothing is due."""

    def __init__(self, assistant: Answerer, connection: Connection | None, clock: Clock = CLOCK) -> None:
        self._assistant = assistant
        self._store = assistant.store
        self._connection = connection
        self._stirred = asyncio.Event()
        self._tried: tuple[str, Peer | None] = "", None
        """Id of what was sent last, and the verifier it was sent with."""
        self._clock = clock
        self._failures: dict[str, int] = {}
        """How often something was sent in vain, by id."""
        self._not_before = clock.now()
        """When what failed may be sent again."""

    def enqueue(self, conversation_id: str, prompt: str, attachments: Sequence[Attachment] = ()) -> Queued:
        """Keep a prompt for the target, with what goes with it. Raises `StorageError`."""
        queued = self._store.queue.add(conversation_id, prompt, attachments)
        self.stir()
        return queued

    def enqueue_verification(self, message_id: str) -> Queued:
        """Queue an answer to be verified when the verifier is there. Raises `StorageError`."""
        queued = self._store.queue.add_verification(message_id)
        self.stir()
        return queued

    def queued(self) -> list[Queued]:
        """What waits, in its order. Raises `StorageError`."""
        return self._store.queue.all()

    def unqueue(self, queued_id: str) -> Queued:
        """Take something out. If it is being answered, it is not tried again. Raises `StorageError`."""
        return self._store.queue.remove(queued_id)

    def use(self, connection: Connection | None) -> None:
        """Send what waits over this one from now on."""
        self._connection = connection
        self.stir()

    def stir(self) -> None:
        """There may be something to send: something was queued, an answer has ended, the verifier is another one."""
        self._stirred.set()
        self._stirred = asyncio.Event()

    def stirred(self) -> Coroutine[Any, Any, bool]:
        """Ends with the next `stir` after this call."""
        return self._stirred.wait()

    async def due(self) -> AsyncGenerator[Queued, None]:
        """What is to be sent now, one after another, while the verifier is there and no reply runs.

        The reader passes each on to `send`. What fails is due again when a verifier has come back, and that is looked
        for every second while something waits.
        """
        self._assistant.start()
        with contextlib.ExitStack() as wanted:
            eager: Connection | None = None
            while True:
                stirred, connection = self._stirred, self._connection
                verifier = None if connection is None else connection.verifier
                queued: Queued | None = None
                if not self._assistant.replying:
                    with contextlib.suppress(StorageError):  # If that goes on, whatever is done next will say so.
                        queued = self._store.queue.next(verify=not isinstance(verifier, Endpoint))
                missed = connection if queued is not None and verifier is None else None
                if eager is not missed:
                    wanted.close()
                    if missed is not None:
                        wanted.enter_context(missed.wanted())
                    eager = missed
                pause = 0.0
                if queued is not None and verifier is not None and not self._was_tried(queued, verifier):
                    if queued.id in self._failures:
                        pause = self._not_before - self._clock.now()
                    if pause <= 0:
                        yield queued
                        if self._was_tried(queued, verifier):
                            continue
                changed = [] if connection is None else [connection.changed()]
                timeout = min(pause, LOOK_SECONDS) if pause > 0 else LOOK_SECONDS
                await first_of(stirred.wait(), *changed, self._clock.sleep(timeout))

    async def send(self, queued: Queued) -> AsyncGenerator[Event, None]:
        """Have something answered or verified, with the events of that; none if another program was faster.

        It leaves the queue once the target has answered, or never can. If the line is lost on the way, the drafter may
        finish the answer, which then waits to be verified.
        """
        self._tried = queued.id, None if self._connection is None else self._connection.verifier
        if queued.message_id is not None:
            events = self._assistant.verify(queued.message_id)
        elif problem := self._assistant.no_verifier():
            yield problem
            return
        else:
            try:
                message = self._store.queue.take(queued.id)
            except StorageError as error:
                yield Failed(str(error), "internal")
                return
            if message is None:
                return
            events = self._assistant.answer(message, waits=True)
        last: Event | None = None
        async with contextlib.aclosing(events):
            async for event in events:
                last = event
                yield event
        self._sent(queued.id, failed=isinstance(last, Failed))

    def _sent(self, queued_id: str, *, failed: bool) -> None:
        """Note when the same may be sent again."""
        count = self._failures.get(queued_id, 0) + 1
        self._failures = {queued_id: count} if failed else {}
        least, most = RETRY_SECONDS
        self._not_before = self._clock.now() + (min(most, least * 2.0 ** (count - 1)) if failed else 0.0)

    def _was_tried(self, queued: Queued, verifier: Peer | None) -> bool:
        # By identity: a verifier that has come back is another one, and worth another try.
        return self._tried[0] == queued.id and self._tried[1] is verifier
