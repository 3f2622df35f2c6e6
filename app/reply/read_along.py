"""Has the model on this device read an answer while a server writes it, so that it can continue at once.

Reading is most of the wait for its first word. It reads in steps, each when the one before is over, and keeps what it
has read (`remote/verifier/completions`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from app.remotes.connection import Connection
from app.remotes.peer import Endpoint
from remote import RemoteError
from remote.openai.schema import Content
from remote.protocol import Sampling

STEP = 100
"""Characters by which the answer has grown before more of it is read: some 25 tokens."""
READ_SECONDS = 120.0
"""Longest wait for it to have read a conversation."""


class ReadAlong:
    """The reading of one answer. `messages`: the conversation before it."""

    def __init__(self, stand_in: Connection, messages: Sequence[tuple[str, Content]]) -> None:
        self._stand_in, self._messages = stand_in, messages
        self._read = -1
        """Characters of the answer that it has read, or -1 while it has not even read the question."""
        self._task: asyncio.Task[None] | None = None
        stand_in.start()

    def follow(self, text: str) -> None:
        """Read the answer so far, if it has grown enough and nothing is being read. Returns at once."""
        reading = self._task is not None and not self._task.done()
        # The first words are read as soon as they are there: how the tokens are spelt is looked up only then.
        due = len(text) - self._read >= (STEP if self._read > 0 else 1)
        if due and not reading and isinstance(self._stand_in.verifier, Endpoint):
            self._read = len(text)
            self._task = asyncio.create_task(self._step(self._stand_in.verifier, text))

    async def end(self) -> None:
        """Read no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _step(self, endpoint: Endpoint, text: str) -> None:
        begun = [("assistant", text)] if text else []
        with contextlib.suppress(RemoteError):
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
