"""What waits for the target, and when it is sent: questions asked without a line, and answers to be verified.

All of it is in the database. The outbox says what is due, and keeps a server that fails from being asked the same again
and again. What waits was put there because the person wants the server's answer. So an answer that waits to be verified
is sent to an OpenAI-compatible server too, which may charge for it, and answers it again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from app.concurrency import first_of
from remote.clock import CLOCK
from storage import Attachment, Queued, StorageError, Store

if TYPE_CHECKING:
    from app.remotes.connection import Connection
    from app.remotes.peer import Peer

LOOK_SECONDS = 30.0
"""Pause between two looks for what another program has queued."""
RETRY_SECONDS = (1.0, 300.0)
"""Least and longest pause before what failed is sent again. It doubles each time: some servers charge for each try."""


@dataclass
class _Next:
    """What can be sent now, if anything, and what may change that."""

    queued: Queued | None = None
    server: Peer | None = None
    looked_at: dict[Connection, None] = field(default_factory=dict)
    """The connections to the servers of what waits, in the order of the queue."""
    missed: list[Connection] = field(default_factory=list)
    """Those without a server."""
    pause: float = LOOK_SECONDS
    """Seconds until something that failed may be sent again."""


class Outbox:
    """The queue of a store. Each entry goes to the server of its own conversation, in the order of the queue.

    An entry that has to wait holds up the others for the same server, and none for another one.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.clock = CLOCK
        """Measures pauses."""
        self._stirred = asyncio.Event()
        self._tried: dict[str, Peer | None] = {}
        """The server that something was last sent to, by its id in the queue."""
        self._failures: dict[str, tuple[int, float]] = {}
        """How often something was sent in vain, and when it may be sent again, by id."""
        self.awaited: frozenset[Connection] = frozenset()
        """The connections to the servers that something waits for."""

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
        """Take an entry out. If it is being answered, it is not tried again. Raises `StorageError`."""
        return self._store.queue.remove(queued_id)

    def stir(self) -> None:
        """There may be something to send: something was queued, an answer has ended, a server is another one."""
        self._stirred.set()
        self._stirred = asyncio.Event()

    def stirred(self) -> Coroutine[Any, Any, bool]:
        """Ends with the next `stir` after this call."""
        return self._stirred.wait()

    async def due(
        self, connection_of: Callable[[str], Connection | None], replying: Callable[[], bool]
    ) -> AsyncGenerator[Queued, None]:
        """What is to be sent now, one entry after another, while its server is there and no reply runs.

        The reader sends each of them. What fails is due again when its server has come back, which is looked for every
        second while something waits. `connection_of`: the connection to the server of a conversation by its id, or None
        if no server is asked; may raise `StorageError`.
        """
        eager: dict[Connection, contextlib.ExitStack] = {}
        try:
            while True:
                stirred = self._stirred
                next_one = _Next() if replying() else self._next(connection_of)
                self.awaited = frozenset(next_one.looked_at)
                for connection in [one for one in eager if one not in next_one.missed]:
                    eager.pop(connection).close()
                for connection in next_one.missed:
                    if connection not in eager:
                        eager[connection] = contextlib.ExitStack()
                        eager[connection].enter_context(connection.wanted())
                if next_one.queued is not None:
                    yield next_one.queued
                    if self._was_tried(next_one.queued, next_one.server):
                        continue
                changed = [connection.changed() for connection in next_one.looked_at]
                timeout = min(next_one.pause, LOOK_SECONDS)
                await first_of(stirred.wait(), *changed, self.clock.sleep(timeout))
        finally:
            for wanted in eager.values():
                wanted.close()

    def _next(self, connection_of: Callable[[str], Connection | None]) -> _Next:
        """What can be sent first, and what has to be waited for before there is more."""
        found = _Next()
        blocked: set[Connection] = set()
        with contextlib.suppress(StorageError):  # If that goes on, whatever is done next will say so.
            entries = self._store.queue.ready()
            for queued in entries:
                connection = connection_of(queued.conversation_id)
                if connection is None or connection in blocked:
                    continue
                found.looked_at[connection] = None
                server = connection.verifier
                blocked.add(connection)
                pause = self._pause(queued.id)
                if server is None:
                    found.missed.append(connection)
                elif self._was_tried(queued, server):
                    continue
                elif pause > 0:
                    found.pause = min(found.pause, pause)
                else:
                    found.queued, found.server = queued, server
                    break
        return found

    def sends(self, queued: Queued, server: Peer | None) -> None:
        """Note to which server an entry goes."""
        self._tried[queued.id] = server

    def sent(self, queued_id: str, *, failed: bool) -> None:
        """Note how an entry fared, and when it may be sent again."""
        count, _ = self._failures.pop(queued_id, (0, 0.0))
        if failed:
            least, most = RETRY_SECONDS
            self._failures[queued_id] = count + 1, self.clock.now() + min(most, least * 2.0**count)

    def _pause(self, queued_id: str) -> float:
        """Seconds until something may be sent again."""
        return self._failures[queued_id][1] - self.clock.now() if queued_id in self._failures else 0.0

    def _was_tried(self, queued: Queued, server: Peer | None) -> bool:
        # By identity: a server that has come back is another one, and worth another try.
        return queued.id in self._tried and self._tried[queued.id] is server
