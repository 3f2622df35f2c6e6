"""Lets the model on this device read an answer while a server writes it, so that it can continue at once.

Reading is most of the wait for its first word. It reads in steps, each when the one before is over, and keeps what it
has read (`remote/verifier/completions`).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence

from app.remotes.connection import Connection
from app.remotes.peer import Endpoint
from remote import Refused, RemoteError
from remote.openai.schema import Content
from remote.protocol import Sampling

STEP = 100
"""Characters by which the answer has grown before more of it is read: some 25 tokens."""
READ_SECONDS = 120.0
"""Longest wait for it to have read a conversation."""


class ReadAlong:
    """The reading of one answer. `messages`: the conversation before it. `text`: the answer so far."""

    def __init__(self, stand_in: Connection, messages: Sequence[tuple[str, Content]], text: Callable[[], str]) -> None:
        self._stand_in, self._messages, self._text = stand_in, messages, text
        self._unread = 0
        """Characters of the answer since the last step."""
        self._due = 0.0
        """How many of them are enough for a step. How the tokens are spelt is looked up at the first step with text,
        so that comes soon."""
        self._task: asyncio.Task[None] | None = None
        stand_in.start()

    def follow(self, grown: int) -> None:
        """Note that the answer has `grown` by this many characters. Read it if that is due; returns at once."""
        self._unread += grown
        if self._unread >= self._due and not self.reads and isinstance(self._stand_in.verifier, Endpoint):
            text = self._text()
            self._unread, self._due = 0, STEP if text else 1
            self._task = asyncio.create_task(self._step(self._stand_in.verifier, text))

    @property
    def reads(self) -> bool:
        return self._task is not None and not self._task.done()

    async def caught_up(self) -> None:
        """Wait until the step in progress is over: what it has read is not read again."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def end(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _step(self, endpoint: Endpoint, text: str) -> None:
        begun = [("assistant", text)] if text else []
        try:
            stream = await endpoint.client.chat(
                [*self._messages, *begun],
                Sampling(),
                model=endpoint.model.id,
                most=1,
                deadline=READ_SECONDS,
                silence=READ_SECONDS,
                continued=bool(begun),
            )
            try:
                while await anext(stream, None) is not None:
                    pass
            finally:
                await stream.aclose()
        except Refused as refused:
            if refused.code == "too_long":
                self._due = math.inf
        except RemoteError:
            pass  # The next step reads it.
