"""One SQLite file: how it is opened, migrated, locked and closed, and what its failures mean to a person.

    StorageError
    ├── StorageFull        the disk has no room left
    ├── StorageReadOnly    the file or its folder may not be written
    ├── StorageBusy        another process held the database for too long
    ├── NotADatabase       the file is damaged, or something else than our database
    ├── NewerDatabase      a newer version has changed the tables
    ├── StorageFailed      any other trouble of the disk or the file system
    ├── NotFound           there is no such conversation or message
    └── AlreadyFinished    a finished message never changes

The write-ahead log lets others read while one writes, and keeps every committed transaction through a `kill -9`;
`synchronous = NORMAL` spares a disk flush at each commit: a power cut may lose the last ones, never the database.
"""

from __future__ import annotations

import errno
import os
import random
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from storage.migrations import MIGRATIONS
from storage.owner import Owner
from storage.sqlite import Sqlite

BUSY_MILLISECONDS = 5000
NAP_SECONDS = 0.002
LOG_BYTES = 8 << 20
LOG_MILLISECONDS = 20
"""A writer waits for readers of a log that is longer."""
_EFFECTIVE = os.access in os.supports_effective_ids


class StorageError(Exception):
    """The database could not do what was asked; the text says why and what to do next."""


class StorageFull(StorageError):
    pass


class StorageReadOnly(StorageError):
    pass


class StorageBusy(StorageError):
    pass


class NotADatabase(StorageError):
    pass


class NewerDatabase(StorageError):
    pass


class StorageFailed(StorageError):
    pass


class NotFound(StorageError):
    pass


class AlreadyFinished(StorageError):
    pass


class Database:
    """A connection that any thread may use, one at a time, with every failure turned into a `StorageError`.

    Subclasses add the operations, each inside one `_read` or `_write`. Calls are short, but one may wait up to
    `BUSY_MILLISECONDS` for another process that writes.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._owner = Owner(path)
        with self._explained():
            _create(path)
            connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._database = Sqlite(connection)
        try:
            with self._explained():
                self._database.execute(f"PRAGMA busy_timeout = {BUSY_MILLISECONDS}")
                self._check_ours()  # Before the first thing that writes to the file.
                self._database.execute("PRAGMA foreign_keys = ON")
                self._enter_wal()
                self._database.execute("PRAGMA synchronous = NORMAL")
            self._migrate()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Messages that are still unfinished are free to be recovered by whoever opens the database next."""
        with self._lock:
            self._database.close()
            self._owner.release()

    def damage(self) -> str | None:
        """What SQLite finds wrong with the file, which may open for all that; None: nothing. Reads all of it.

        Raises `NotADatabase` where it cannot even be read.
        """
        with self._read() as database:
            (found,) = database.execute("PRAGMA quick_check(1)").fetchone()
        return None if found == "ok" else str(found)

    @contextmanager
    def _read(self) -> Iterator[Sqlite]:
        with self._lock, self._explained():
            yield self._database

    @contextmanager
    def _write(self, milliseconds: int | None = None) -> Iterator[Sqlite]:
        """A transaction: all or nothing. IMMEDIATE, so that it waits for its turn here and never fails half way.

        `milliseconds`: longest wait; None: `BUSY_MILLISECONDS`.
        """
        with self._lock, self._explained():
            self._begin(milliseconds)
            try:
                yield self._database
                self._database.execute("COMMIT")
            except BaseException:
                self._database.rollback()
                raise
            self._shorten_log()

    def _begin(self, milliseconds: int | None) -> None:
        """Waits for the one write transaction that there may be.

        SQLite's own way to wait sleeps for up to 100 ms between two tries, and by then a program that writes without
        pause, an import for instance, is in its next transaction: a checkpoint beside it took up to 1.6 s. With short
        naps it takes 0.15 s at most.
        """
        with self._patience(0) as usual:
            deadline = time.monotonic() + (usual if milliseconds is None else milliseconds) / 1000
            while True:
                try:
                    self._database.execute("BEGIN IMMEDIATE")
                    return
                except sqlite3.OperationalError as error:
                    if not _is_busy(error) or time.monotonic() > deadline:
                        raise
                time.sleep(random.uniform(0.0, NAP_SECONDS))

    def _shorten_log(self) -> None:
        """Writes a long log back to the database, once nobody reads in it.

        SQLite does so by itself, but begins the log anew only where a writer finds no reader at all: two windows that
        write and read without pause have it grow by 17 MB a second.
        """
        with suppress(OSError, sqlite3.DatabaseError):  # What is stored is stored; the next write tries again.
            if Path(f"{self.path}-wal").stat().st_size > LOG_BYTES:
                with self._patience(LOG_MILLISECONDS):
                    self._database.execute("PRAGMA wal_checkpoint (TRUNCATE)").fetchone()

    @contextmanager
    def _patience(self, milliseconds: int) -> Iterator[int]:
        """How long SQLite waits for others in here; yields what it is elsewhere."""
        (usual,) = self._database.execute("PRAGMA busy_timeout").fetchone()
        self._database.execute(f"PRAGMA busy_timeout = {milliseconds}")
        try:
            yield usual
        finally:
            self._database.execute(f"PRAGMA busy_timeout = {usual}")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.DatabaseError, OSError) as error:
            if isinstance(error, (sqlite3.ProgrammingError, sqlite3.IntegrityError)):
                raise  # Ours to mend: no advice would help the person.
            raise _explain(error, self.path) from error

    def _check_ours(self) -> None:
        # In this order: another process may create all tables, with their record, between the two.
        if self._database.tables() and not MIGRATIONS.applied(self._database):
            raise NotADatabase(
                f"{self.path} belongs to another program; move it away, or set OUTRIDER_HOME to another folder."
            )

    def _enter_wal(self) -> None:
        # SQLite waits for no one here: it fails at once where another process does the same to the same new file.
        deadline = time.monotonic() + BUSY_MILLISECONDS / 1000
        while True:
            try:
                self._database.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if not _is_busy(error) or time.monotonic() > deadline:
                    raise
            time.sleep(0.01)

    def _migrate(self) -> None:
        # Inside one write transaction, so that of two processes which start at once the second finds nothing to do.
        with self._write() as database:
            applied = MIGRATIONS.applied(database)
            if unknown := [name for name in applied if name not in MIGRATIONS.known]:
                raise NewerDatabase(
                    f"{self.path} was written by a newer Outrider (it has {unknown[0]}); update Outrider to open it."
                )
            if pending := MIGRATIONS.pending(database):
                if applied:
                    self._back_up(pending[0])
                MIGRATIONS.apply(database)

    def _back_up(self, migration: str) -> None:
        """Copies the database to `NAME.before-MIGRATION`, which exists only when it is whole."""
        backup = self.path.with_name(f"{self.path.name}.before-{migration}")
        unfinished = backup.with_name(f"{backup.name}.part")
        _remove(unfinished)
        _create(unfinished)
        try:
            # Its own connection: SQLite copies nothing out of one that has a write transaction open.
            with closing(sqlite3.connect(self.path)) as source, closing(sqlite3.connect(unfinished)) as copy:
                source.backup(copy)
            os.replace(unfinished, backup)
        except BaseException:
            _remove(unfinished)  # On a disk that is full, half a copy is room that somebody needs.
            raise


def _is_busy(error: sqlite3.OperationalError) -> bool:
    return error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY


def _create(path: Path) -> None:
    """An empty file for this account's eyes only, where there is none. SQLite gives its side files the same rights."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        # Only ever a new file: closing a file that SQLite has open drops its locks all over this process.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        return


def _remove(copy: Path) -> None:
    for path in (copy, copy.with_name(f"{copy.name}-journal")):
        path.unlink(missing_ok=True)


def _in_the_way(path: Path) -> str:
    """What is wrong where something else stands in the place of the database or its folder; empty: nothing."""
    if os.path.isdir(path):
        return f"{path} is a folder, and the database is to be a file of that name; move it away."
    folder = next((one for one in path.parents if os.path.lexists(one)), path)
    if not os.path.isdir(folder):
        return f"{folder} is not a folder; move it away, or set OUTRIDER_HOME to a folder."
    return ""


def _unwritable(path: Path) -> str:
    """Which of the files and folders of a database it is that may not be written, as well as that can be told."""
    folder = next((one for one in path.parents if os.path.lexists(one)), path.parent)
    if os.access(folder, os.W_OK | os.X_OK, effective_ids=_EFFECTIVE):
        for file in (path, *(path.with_name(path.name + side) for side in ("-wal", "-shm"))):
            if os.path.lexists(file) and not os.access(file, os.R_OK | os.W_OK, effective_ids=_EFFECTIVE):
                return f"file {file}"
    return f"folder {folder}"


def _explain(error: sqlite3.Error | OSError, path: Path) -> StorageError:
    if isinstance(error, OSError):
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        read_only = error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
        if error.errno in (errno.EEXIST, errno.ENOTDIR) and (wrong := _in_the_way(path)):
            return StorageFailed(wrong)
        code = sqlite3.SQLITE_FULL if full else sqlite3.SQLITE_READONLY if read_only else sqlite3.SQLITE_IOERR
    else:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF  # The low byte is the kind of error.
    match code:
        case sqlite3.SQLITE_FULL:
            return StorageFull(f"There is no room left to save to {path}; free some disk space, then try again.")
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            return StorageReadOnly(
                _in_the_way(path)
                or f"The {_unwritable(path)} may not be written; change its permissions, "
                "or set OUTRIDER_HOME to a folder that you can write to."
            )
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StorageBusy(f"Another program is using {path}; close it or wait a moment, then try again.")
        case sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_CORRUPT:
            return NotADatabase(
                f"{path} is damaged or not a database; move it away to start afresh, or put a backup in its place."
            )
        case _:
            return StorageFailed(f"Saving to {path} failed ({error}); check that the disk is healthy and connected.")
