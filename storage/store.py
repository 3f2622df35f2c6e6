"""The one door to the database."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from storage.asked import Asked
from storage.bin import Bin
from storage.branches import Branches
from storage.conversations import Conversations
from storage.importing import Importing
from storage.memory import Memories
from storage.ordering import Ordering
from storage.queue import Queue
from storage.search import Search


class Store(Conversations, Branches, Bin, Queue, Ordering, Memories, Search, Asked, Importing):
    """Everything that is kept on the device, in one SQLite file that several processes may open at once.

    Any thread may call it; calls take turns. Every failure is a `StorageError` that says what to do.
    """

    @classmethod
    def open(cls, path: Path) -> Self:
        """Opens or creates the database, brings its tables up to date, ends what a crash left unfinished, and empties
        the bin of what is old."""
        store = cls(path)
        try:
            store.recover()
            store.purge()
        except BaseException:
            store.close()
            raise
        return store
