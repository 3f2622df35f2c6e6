"""The single entry point to the database."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from storage.bin import Bin
from storage.branches import Branches
from storage.calls import Calls
from storage.conversations import Conversations
from storage.database import MEMORY, Database
from storage.errors import NeedsWriting, StorageError
from storage.memory import Memories
from storage.messages import Messages
from storage.queue import Queue
from storage.replays import Replays
from storage.search import FullTextSearch
from storage.summaries import Summaries
from storage.transfer import Transfer
from storage.usage import Usage


class Store:
    """All stored data, in one SQLite file that several processes may open at once.

    Each attribute owns one group of tables. Calls from several threads are serialised. Every failure is a
    `StorageError` that says what to do.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.database = Database(path, read_only=read_only)
        self.conversations = Conversations(self.database)
        self.messages = Messages(self.database)
        self.calls = Calls(self.database)
        self.branches = Branches(self.database)
        self.summaries = Summaries(self.database)
        self.bin = Bin(self.database)
        self.queue = Queue(self.database)
        self.memory = Memories(self.database)
        self.replays = Replays(self.database)
        self.search = FullTextSearch(self.database)
        self.transfer = Transfer(self.database)
        self.usage = Usage(self.database)

    @classmethod
    def open(cls, path: Path) -> Self:
        """Opens or creates the database, migrates it, ends messages that a crash left unfinished, purges the bin."""
        store = cls(path)
        try:
            store.messages.recover()
            store.bin.purge()
        except BaseException:
            store.close()
            raise
        return store

    @classmethod
    def read(cls, path: Path) -> Self:
        """Opens the database for a command that only reads, even on a full or read-only disk or during a write.

        If there is no database, an empty one in memory is used. One that must be written to first, because an older
        Outrider or a crash left it, is opened as by `open` if possible.
        """
        try:
            path.stat()
        except FileNotFoundError:
            return cls(MEMORY)
        except OSError:
            return cls.open(path)  # Its error names the obstacle.
        try:
            store = cls(path, read_only=True)
        except NeedsWriting:
            return cls.open(path)
        if store.messages.unfinished:
            try:
                writable = cls.open(path)
            except StorageError:
                return store
            store.close()
            return writable
        return store

    @property
    def path(self) -> Path:
        return self.database.path

    def close(self) -> None:
        """Closes the file; the next process that opens it may recover messages that are still unfinished."""
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
