"""Texts in which the second stage searches for continuations: the newest stored answers, and the drafter's datastore.

Both are read in the background: the datastore once, the answers at each reply, because the last reply added one.
"""

from __future__ import annotations

import asyncio
import contextlib

from app.drafting.prompt import is_spelt
from drafter.ngram import BREAK, NGramIndex
from drafter.runtime import Drafter
from drafter.second_stage import Experience
from models.config import DrafterError
from storage import StorageError, Store

STORED_TOKENS = 32_768
"""Tokens of stored answers that are read, up to the end of the oldest answer. Their index takes 4 MB (tracemalloc) and
10 ms to build."""


class Retrieval:
    """The texts of the second stage, which all conversations of one program share."""

    def __init__(self, drafter: Drafter, store: Store) -> None:
        self.indices: tuple[NGramIndex, ...] = ()
        """Indices of the answers and of the datastore; none at first. An index never changes once it is here."""
        self.experience = Experience()
        """How often guesses have come true, in all conversations."""
        self._drafter = drafter
        self._store = store
        self._reading: asyncio.Task[None] | None = None

    def refresh(self) -> None:
        """Begin to read; returns at once."""
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read())

    async def close(self) -> None:
        """Wait until reading has ended."""
        if self._reading is not None:
            await asyncio.wait([self._reading])

    async def _read(self) -> None:
        # The person need not know that guesses could not be read; the old indices stay.
        with contextlib.suppress(StorageError, DrafterError):
            answers = await asyncio.to_thread(self._answers)
            self.indices = (answers, *self.indices[1:])
            if len(self.indices) == 1:
                self.indices = (answers, await asyncio.to_thread(self._drafter.datastore))
                # Tried out once, in 60 ms, so that the first answer without a line need not wait for it.
                await asyncio.to_thread(lambda: self._drafter.independent_rows)

    def _answers(self) -> NGramIndex:
        text = self._drafter.text
        index, opening = NGramIndex(), text.answer_opening()
        for answer in reversed(self._store.messages.recent_answers(STORED_TOKENS)):
            if is_spelt(text, answer):
                index.extend([*opening, *answer.tokens, BREAK])
        return index
