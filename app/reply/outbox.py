"""The queue for the target, and when its entries are sent: questions asked offline, and answers to be verified.

All entries are in the database. The outbox decides what is due, and prevents a failing server from being asked again
and again. Entries were queued because the person wants the server's answer. So an answer to be verified is also sent
to an OpenAI-compatible server, which may charge for it, and answers it again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from app.concurrency import first_of
from remote.clock import CLOCK
from storage import Attachment, Queued, StorageError, Store

if TYPE_CHECKING:
    from app.remotes.connection import Connection
    from app.remotes.peer import Peer

LOOK_SECONDS = 30.0
"""Pause between two checks for entries that another program has queued."""
RETRY_SECONDS = (1.0, 300.0)
"""Shortest and longest pause before a failed entry is sent again. It doubles each time, because some servers charge for
each try."""


@dataclass
class _Next:
    """The entry that can be sent now, if any, and what may change that."""

    queued: Queued | None = None
    server: Peer | None = None
    looked_at: dict[Connection, None] = field(default_factory=dict)
    """The connections to the servers of the entries, in queue order."""
    missed: list[Connection] = field(default_factory=list)
    """Those without a server."""
    pause: float = LOOK_SECONDS
    """Seconds until something that failed may be sent again."""


class Outbox:
    """The queue of a store. Each entry goes to the server of its own conversation, in the order of the queue.

    An entry that has to wait for its server blocks the others for the same server, but none for another one.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.clock = CLOCK
        """Measures pauses."""
        self._stirred = asyncio.Event()
        self._tried: dict[str, Peer | None] = {}
        """The server to which each entry was last sent, by queue id."""
        self._failures: dict[str, tuple[int, float]] = {}
        """How often each entry was sent in vain, and when it may be sent again, by id."""
        self._sending: dict[str, Queued] = {}
        """The entries that are being sent, by id."""
        self._following: set[str] = set()
        """Ids of the prompts that follow a reply."""
        self._here: frozenset[str] = frozenset()
        """Ids of the prompts that a model on this device may answer if their server is away."""
        self.awaited: frozenset[Connection] = frozenset()
        """The connections to the servers that entries wait for."""

    def enqueue(
        self, conversation_id: str, prompt: str, attachments: Sequence[Attachment] = (), *, follows: bool = False
    ) -> Queued:
        """Queue a prompt for the target, with its attachments. Raises `StorageError`.

        `follows`: it only waits for running replies to end. Then it is asked like any other question, and need not be
        answered by the target. If the program is killed before that, it waits for the target like the others.
        """
        queued = self._store.queue.add(conversation_id, prompt, attachments)
        if follows:
            self._following.add(queued.id)
        self.stir()
        return queued

    def enqueue_verification(self, message_id: str) -> Queued:
        """Queue an answer to be verified when the verifier is available. Raises `StorageError`."""
        queued = self._store.queue.add_verification(message_id)
        self.stir()
        return queued

    def queued(self) -> list[Queued]:
        """The queue entries, in order. Raises `StorageError`."""
        return self._store.queue.all()

    def unqueue(self, queued_id: str) -> Queued:
        """Remove an entry. If it is being answered, it is not retried. Raises `StorageError`."""
        self._following.discard(queued_id)
        return self._store.queue.remove(queued_id)

    def answer_here(self, stands_in: Callable[[str], bool]) -> None:
        """Let a model on this device answer the prompts that wait now, in order, while their servers are away.

        `stands_in`: whether it answers for the server of a conversation, by its id; may raise `StorageError`.
        """
        with contextlib.suppress(StorageError):  # If that persists, the next action will report it.
            prompts = [queued for queued in self._store.queue.all() if queued.kind == "ask"]
            self._here = frozenset(queued.id for queued in prompts if stands_in(queued.conversation_id))
        for queued_id in self._here:
            self._tried.pop(queued_id, None)
            self._failures.pop(queued_id, None)
        self.stir()

    def follows(self, queued: Queued) -> bool:
        """Whether a prompt only waits for running replies to end."""
        return queued.id in self._following

    def may_answer_here(self, queued: Queued) -> bool:
        """Whether a model on this device may answer a prompt."""
        return queued.kind == "ask" and queued.id in self._here

    def stir(self) -> None:
        """Signal that there may be something to send: something was queued, an answer ended, or a server changed."""
        self._stirred.set()
        self._stirred = asyncio.Event()

    def stirred(self) -> Coroutine[Any, Any, bool]:
        """Ends with the next `stir` after this call."""
        return self._stirred.wait()

    async def due(
        self,
        connection_of: Callable[[str], Connection | None],
        replying: Callable[[], Collection[str]],
        stands_in: Callable[[Connection], bool],
        has_room: Callable[[str, Collection[str]], bool],
    ) -> AsyncGenerator[Queued, None]:
        """Yields the entries to send now, while their servers are available and take another answer.

        The reader sends each of them: at once, or together with the next ones. A failed entry is due again when its
        server is back, which is checked every second while something waits. `connection_of`: the connection to the
        server of a conversation by its id, or None if no server is asked; may raise `StorageError`. `replying`: ids of
        the conversations in which a reply runs. `stands_in`: whether a model on this device answers while that server
        is away. `has_room`: whether the server of a conversation has room for an answer in addition to those in other
        conversations.
        """
        eager: dict[Connection, contextlib.ExitStack] = {}
        try:
            while True:
                stirred = self._stirred
                next_one = self._next(connection_of, self.busy(replying()), stands_in, has_room)
                self.awaited = frozenset(next_one.looked_at)
                for connection in [one for one in eager if one not in next_one.missed]:
                    eager.pop(connection).close()
                for connection in next_one.missed:
                    if connection not in eager:
                        eager[connection] = contextlib.ExitStack()
                        eager[connection].enter_context(connection.wanted())
                if next_one.queued is not None:
                    yield next_one.queued
                    if next_one.queued.id in self._sending or self._was_tried(next_one.queued, next_one.server):
                        continue
                changed = [connection.changed() for connection in next_one.looked_at]
                timeout = min(next_one.pause, LOOK_SECONDS)
                await first_of(stirred.wait(), *changed, self.clock.sleep(timeout))
        finally:
            for wanted in eager.values():
                wanted.close()

    def busy(self, replying: Collection[str]) -> set[str]:
        """Ids of the conversations in which a reply runs, or is about to."""
        return {*replying, *(queued.conversation_id for queued in self._sending.values())}

    def _next(
        self,
        connection_of: Callable[[str], Connection | None],
        busy: Collection[str],
        stands_in: Callable[[Connection], bool],
        has_room: Callable[[str, Collection[str]], bool],
    ) -> _Next:
        """The first entry that can be sent, and what to wait for before there is another."""
        found = _Next()
        seen: set[str] = set()
        blocked: set[Connection] = set()
        stuck: set[str] = set()
        with contextlib.suppress(StorageError):  # If that persists, the next action will report it.
            entries = self._store.queue.ready()
            for queued in entries:
                conversation = queued.conversation_id
                connection, follows = connection_of(conversation), self.follows(queued) and conversation not in seen
                if queued.kind == "ask":  # An answer that is to be checked keeps no question waiting.
                    seen.add(conversation)
                if connection is not None:
                    found.looked_at[connection] = None
                if conversation in busy or not has_room(conversation, busy):
                    continue
                if follows:
                    found.queued, found.server = queued, None if connection is None else connection.verifier
                    break
                if connection is None:
                    continue
                server = connection.verifier
                if server is None and self.may_answer_here(queued) and stands_in(connection):
                    if queued.conversation_id not in stuck and not self._was_tried(queued, None):
                        found.queued = queued
                        break
                    stuck.add(queued.conversation_id)
                if connection in blocked:
                    continue
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

    def begin(self, queued: Queued) -> None:
        """Record that an entry is about to be sent. `end` must follow."""
        self._sending[queued.id] = queued

    def end(self, queued: Queued) -> None:
        """Record that sending it is over."""
        self._sending.pop(queued.id, None)
        self._following.discard(queued.id)
        self.stir()

    def sends(self, queued: Queued, server: Peer | None) -> None:
        self._tried[queued.id] = server

    def sent(self, queued_id: str, *, failed: bool) -> None:
        """Record the result of an entry, and when it may be sent again."""
        count, _ = self._failures.pop(queued_id, (0, 0.0))
        if failed:
            least, most = RETRY_SECONDS
            self._failures[queued_id] = count + 1, self.clock.now() + min(most, least * 2.0**count)

    def _pause(self, queued_id: str) -> float:
        return self._failures[queued_id][1] - self.clock.now() if queued_id in self._failures else 0.0

    def _was_tried(self, queued: Queued, server: Peer | None) -> bool:
        # By identity: a server that has come back is a new object, and worth another try.
        return queued.id in self._tried and self._tried[queued.id] is server
