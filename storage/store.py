"""The one entrance to the database."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from storage.bin import Bin
from storage.branches import Branches
from storage.conversations import Conversations
from storage.database import MEMORY, Database
from storage.errors import NeedsWriting, StorageError
from storage.memory import Memories
from storage.messages import Messages
from storage.queue import Queue
from storage.replays import Replays
from storage.search import FullTextSearch
from storage.transfer import Transfer


class Store:
    """Everything that is kept on the device, in one SQLite file that several processes may open at once.

    Each attribute owns one group of tables. Any thread may call them; calls take turns. Every failure is a
    `StorageError` that says what to do.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.database = Database(path, read_only=read_only)
        self.conversations = Conversations(self.database)
        self.messages = Messages(self.database)
        self.branches = Branches(self.database)
        self.bin = Bin(self.database)
        self.queue = Queue(self.database)
        self.memory = Memories(self.database)
        self.replays = Replays(self.database)
        self.search = FullTextSearch(self.database)
        self.transfer = Transfer(self.database)

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
        """Opens the database for a command that only reads: on a full or read-only disk too, and during any write.

        Without a database, an empty one is in memory. One that has to be written to first, because an older Outrider
        or a crash has left it, is opened as by `open` where that is possible.
        """
        try:
            path.stat()
        except FileNotFoundError:
            return cls(MEMORY)
        except OSError:
            return cls.open(path)  # Its error says what is in the way.
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
