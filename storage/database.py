"""One SQLite file: how it is opened, migrated, locked and closed.

The write-ahead log lets others read while one writes, and keeps every committed transaction through a `kill -9`.
`synchronous = NORMAL` saves one disk flush per commit: a power cut may lose the last commits, but never the database.
Network folders get a rollback journal instead.
"""

from __future__ import annotations

import os
import random
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from storage.errors import UNLOCKABLE, NeedsWriting, NewerDatabase, NotADatabase, explain
from storage.migrations import MIGRATIONS
from storage.owner import LoneOwner, Owner
from storage.sqlite import Sqlite

MEMORY = Path(":memory:")
"""Instead of a path: the database is in memory and gone once it is closed."""
BUSY_MILLISECONDS = 5000
MIGRATION_MILLISECONDS = 60_000
"""How long a window waits while another one may be bringing an old database up to date."""
NAP_SECONDS = 0.002
WITHOUT_SHARED_MEMORY = 1
"""`user_version` of a database on a disk where processes cannot share memory."""
LOG_BYTES = 8 << 20
LOG_MILLISECONDS = 20
"""How long a writer waits for readers once the log is longer than `LOG_BYTES`."""


class Database:
    """One connection that any thread may use, one thread at a time. Every failure is raised as a `StorageError`.

    The classes that own tables run each operation inside one `read` or `write`. A call is short, but it may wait up to
    `BUSY_MILLISECONDS` for another process that writes.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        """`read_only`: write nothing to the file, which must exist.

        Raises `NeedsWriting` if the file must be written to before it can be read.
        """
        self.path = path
        self.owner = LoneOwner(path) if path == MEMORY else Owner(path)
        self._lock = threading.Lock()
        with self._explained():
            if read_only:
                self._sql = _read_only(path)
            else:
                if path != MEMORY:
                    _create(path)
                self._sql = _connected(path)
        try:
            if read_only:
                self._check_readable()
                return
            with self._explained():
                try:
                    self._check_ours()  # This must precede the first write to the file.
                    self._enter_wal()
                except sqlite3.OperationalError as error:
                    if not _is_unlockable(error):
                        raise
                    self._leave_wal()
                    self._check_ours()
                self._sql.execute("PRAGMA foreign_keys = ON")
                # Whether what is erased stays in the file depends on how SQLite was built.
                self._sql.execute("PRAGMA secure_delete = ON")
                (journal,) = self._sql.execute("PRAGMA journal_mode").fetchone()
                self._sql.execute(f"PRAGMA synchronous = {'NORMAL' if journal == 'wal' else 'FULL'}")
            self._migrate()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Closes the file; the next process that opens it may recover messages that are still unfinished."""
        with self._lock:
            self._sql.close()
            self.owner.release()

    def damage(self) -> str | None:
        """Checks the whole file and returns the damage that SQLite finds, or None.

        Raises `NotADatabase` if the file cannot be read at all.
        """
        with self.read() as sql:
            (found,) = sql.execute("PRAGMA quick_check(1)").fetchone()
        return None if found == "ok" else str(found)

    def changes(self) -> int:
        """A number that changes whenever another program writes to the file."""
        with self.read() as sql:
            (number,) = sql.execute("PRAGMA data_version").fetchone()
        return int(number)

    @contextmanager
    def read(self) -> Iterator[Sqlite]:
        """Lends the connection for reading; other threads wait meanwhile."""
        with self._lock, self._explained():
            yield self._sql

    @contextmanager
    def write(self, milliseconds: int | None = None) -> Iterator[Sqlite]:
        """Lends the connection for one transaction, which is committed at the end or rolled back on any exception.

        The transaction is IMMEDIATE: it waits at the start and never fails half-way. `milliseconds`: the longest wait,
        by default `BUSY_MILLISECONDS`.
        """
        with self._lock, self._explained():
            self._begin(milliseconds)
            try:
                yield self._sql
                self._sql.execute("COMMIT")
            except BaseException:
                self._sql.rollback()
                raise
            self._shorten_log()

    def _begin(self, milliseconds: int | None) -> None:
        """Waits until no other process writes, then begins a write transaction.

        SQLite's own wait sleeps for up to 100 ms between attempts. By then a program that writes without pause, such as
        an import, is in its next transaction: a checkpoint during an import took up to 1.6 s. With short sleeps it
        takes at most 0.15 s.
        """
        with self._patience(0) as usual:
            deadline = time.monotonic() + (usual if milliseconds is None else milliseconds) / 1000
            while True:
                try:
                    self._sql.execute("BEGIN IMMEDIATE")
                    return
                except sqlite3.OperationalError as error:
                    if not _is_busy(error) or time.monotonic() > deadline:
                        raise
                time.sleep(random.uniform(0.0, NAP_SECONDS))

    def _shorten_log(self) -> None:
        """Writes a long log back to the database as soon as it has no readers.

        SQLite does this too, but it restarts the log only if a writer finds no reader at all: two windows that write
        and read without pause make the log grow by 17 MB a second.
        """
        with suppress(OSError, sqlite3.DatabaseError):  # The data is committed; the next write tries again.
            if Path(f"{self.path.resolve()}-wal").stat().st_size > LOG_BYTES:
                with self._patience(LOG_MILLISECONDS):
                    self._sql.execute("PRAGMA wal_checkpoint (TRUNCATE)").fetchone()

    @contextmanager
    def _patience(self, milliseconds: int) -> Iterator[int]:
        """Sets how long SQLite waits for other processes inside the block; yields the usual wait."""
        (usual,) = self._sql.execute("PRAGMA busy_timeout").fetchone()
        self._sql.execute(f"PRAGMA busy_timeout = {milliseconds}")
        try:
            yield usual
        finally:
            self._sql.execute(f"PRAGMA busy_timeout = {usual}")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.DatabaseError, OSError) as error:
            if isinstance(error, (sqlite3.ProgrammingError, sqlite3.IntegrityError)):
                raise  # This is our bug: no advice would help the person.
            raise explain(error, self.path) from error

    def _check_ours(self) -> None:
        # The order matters: another process may create all tables and their record between the two checks.
        if self._sql.tables() and not MIGRATIONS.applied(self._sql):
            raise NotADatabase(
                f"{self.path} belongs to another program; move it away, or set OUTRIDER_HOME to another folder."
            )

    def _check_known(self) -> None:
        if unknown := [name for name in MIGRATIONS.applied(self._sql) if name not in MIGRATIONS.known]:
            raise NewerDatabase(
                f"{self.path} was written by a newer Outrider (it has {unknown[0]}); update Outrider to open it."
            )

    def _check_readable(self) -> None:
        with self._explained():
            self._check_ours()
            if MIGRATIONS.pending(self._sql):
                raise NeedsWriting(f"{self.path} is from an older Outrider; open it with the chat once.")
            self._check_known()

    def _enter_wal(self) -> None:
        (version,) = self._sql.execute("PRAGMA user_version").fetchone()
        if version == WITHOUT_SHARED_MEMORY:
            return
        # SQLite does not wait here: it fails at once if another process does the same to the same new file.
        deadline = time.monotonic() + BUSY_MILLISECONDS / 1000
        while True:
            try:
                self._sql.execute("PRAGMA journal_mode = WAL")
                self._sql.tables()  # The first access to the log's index.
                return
            except sqlite3.OperationalError as error:
                if not _is_busy(error) or time.monotonic() > deadline:
                    raise
            time.sleep(0.01)

    def _leave_wal(self) -> None:
        """Switch back to a rollback journal for good: network folders lack the shared memory that a log needs.

        SQLite takes 10 s to find out. With exclusive access it needs no shared memory, and writes the log back.
        """
        self._sql.close()
        self._sql = _connected(self.path)
        self._sql.execute("PRAGMA locking_mode = EXCLUSIVE")
        self._sql.execute("PRAGMA journal_mode = DELETE").fetchone()
        self._sql.execute(f"PRAGMA user_version = {WITHOUT_SHARED_MEMORY}")
        self._sql.execute("PRAGMA locking_mode = NORMAL")
        self._sql.tables()  # The lock is released only by the next access.

    def _migrate(self) -> None:
        # One write transaction: if two processes start at once, the second finds nothing to do.
        with self.write(MIGRATION_MILLISECONDS if MIGRATIONS.pending(self._sql) else None) as sql:
            self._check_known()
            if pending := MIGRATIONS.pending(sql):
                if MIGRATIONS.applied(sql):
                    self._back_up(pending[0])
                MIGRATIONS.apply(sql)

    def _back_up(self, migration: str) -> None:
        """Copies the database to `NAME.before-MIGRATION`, a file that exists only once the copy is complete."""
        backup = self.path.with_name(f"{self.path.name}.before-{migration}")
        unfinished = backup.with_name(f"{backup.name}.part")
        _remove(unfinished)
        _create(unfinished)
        try:
            # This needs its own connection: SQLite does not copy from one with an open write transaction.
            with closing(sqlite3.connect(self.path)) as source, closing(sqlite3.connect(unfinished)) as copy:
                source.backup(copy)
            os.replace(unfinished, backup)
        except BaseException:
            _remove(unfinished)  # On a full disk, half a copy wastes space that is needed.
            raise


def _connected(path: Path, options: str = "") -> Sqlite:
    where = f"{path.absolute().as_uri()}?{options}" if options else str(path)
    connection = sqlite3.connect(where, isolation_level=None, check_same_thread=False, uri=bool(options))
    connection.execute(f"PRAGMA busy_timeout = {BUSY_MILLISECONDS}")
    return Sqlite(connection)


def _read_only(path: Path) -> Sqlite:
    """A connection that writes nothing.

    To read during a write, SQLite shares a file with the writer. If that file does not exist and cannot be created, on
    a full or read-only disk, nobody can be writing, so the database is read as it is.
    """
    sql = _connected(path, "mode=ro")
    try:
        sql.tables()
    except sqlite3.OperationalError as error:
        sql.close()
        if _is_busy(error) or _size(Path(f"{path.resolve()}-wal")):
            raise
        sql = _connected(path, "mode=ro&immutable=1")
    except BaseException:
        sql.close()
        raise
    return sql


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _is_unlockable(error: sqlite3.OperationalError) -> bool:
    """Whether the log's index cannot be shared, because it cannot be locked or mapped into memory."""
    return error.sqlite_errorcode in (sqlite3.SQLITE_PROTOCOL, *UNLOCKABLE)


def _is_busy(error: sqlite3.OperationalError) -> bool:
    return error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY


def _create(path: Path) -> None:
    """Creates an empty file that only this account can read, if there is none. SQLite copies its mode to side files."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        # Never open an existing file here: closing a file that SQLite has open drops its locks in the whole process.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        return


def _remove(copy: Path) -> None:
    for path in (copy, copy.with_name(f"{copy.name}-journal")):
        path.unlink(missing_ok=True)
