"""Which processes still run: a lock file next to the database for each one that is writing an answer.

The operating system drops the lock when its process ends, however it ends. A lock is therefore more reliable than a
process number: numbers are reused and differ between containers, and each system reports start times differently. Call
`claim` and `living` only inside a write transaction. SQLite's own lock then serialises them, so a file that exists but
is not locked yet is never taken for that of a dead process.
"""

from __future__ import annotations

import os
import secrets
import sys
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

if sys.platform == "win32":
    import msvcrt

    LOCKED = (1 << 31) - 2
    """The byte that is locked. Locking begins at the position in the file, which differs for one that grows."""

    def try_lock(file: BinaryIO) -> bool:
        """Lock an open file until it is closed. Returns False if another process has locked it."""
        at = os.lseek(file.fileno(), 0, os.SEEK_CUR)
        os.lseek(file.fileno(), LOCKED, os.SEEK_SET)
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        finally:
            os.lseek(file.fileno(), at, os.SEEK_SET)
        return True
else:
    import fcntl

    def try_lock(file: BinaryIO) -> bool:
        """Lock an open file until it is closed. Returns False if another process has locked it."""
        try:
            # flock, not lockf: the lock belongs to the open file, so two stores of one process see each other.
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


class Owner:
    """Marks the messages that one open store is writing."""

    def __init__(self, database: Path) -> None:
        self.name = secrets.token_hex(8)
        self._folder = database.absolute().parent
        self._prefix = f"{database.name}-owner-"
        self._file: BinaryIO | None = None

    def claim(self) -> str:
        """Locks this owner's file and returns its name for `messages.owner`. Raises `OSError`."""
        if self._file is None:
            file = (self._folder / (self._prefix + self.name)).open("xb")
            try:
                locked = try_lock(file)
            except OSError:
                locked = True  # This file system has no such locks, so others cannot know that this process runs.
            except BaseException:
                file.close()
                raise
            if not locked:
                file.close()
                raise OSError(f"{file.name} was locked by another program as soon as it was there")
            self._file = file
        return self.name

    def living(self) -> set[str]:
        """The names of all owners whose process runs, this one included. Removes the files of the others."""
        alive = {self.name}
        for path in self._folder.iterdir():
            if path.name.startswith(self._prefix) and path.name != self._prefix + self.name:
                try:
                    with path.open("r+b") as file:
                        dead = try_lock(file)
                except FileNotFoundError:
                    continue
                except OSError:
                    dead = False  # Another account's process, or a disk that gives no answer: not ours to end.
                if dead:
                    path.unlink(missing_ok=True)
                else:
                    alive.add(path.name.removeprefix(self._prefix))
        return alive

    def release(self) -> None:
        """Drops the lock, so that others may recover what this owner left unfinished."""
        if self._file is not None:
            self._file.close()
            with suppress(OSError):  # The lock is gone, so the next process to look removes the file.
                Path(self._file.name).unlink()
            self._file = None


class LoneOwner(Owner):
    """The owner of a database in memory, which no other process can open: there is nothing to lock."""

    def claim(self) -> str:
        return self.name

    def living(self) -> set[str]:
        return {self.name}
