"""Which processes still live: a lock file beside the database for each one that is writing an answer.

The operating system drops the lock when its process ends, however it ends, so a lock tells more than a process
number could: numbers are used again, differ between containers, and their start times are read differently on each
system. Call `claim` and `living` inside a write transaction only: then SQLite's own lock orders them, and a file that
was just created but not locked yet is never taken for a dead one.
"""

from __future__ import annotations

import secrets
import sys
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

if sys.platform == "win32":
    import msvcrt

    def _try_lock(file: BinaryIO) -> bool:
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
else:
    import fcntl

    def _try_lock(file: BinaryIO) -> bool:
        try:
            # flock and not lockf: it belongs to this open file, so that two stores of one process see each other.
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


class Owner:
    """One open store's mark on the messages that it is writing."""

    def __init__(self, database: Path) -> None:
        self.name = secrets.token_hex(8)
        self._folder = database.absolute().parent
        self._prefix = f"{database.name}-owner-"
        self._file: BinaryIO | None = None

    def claim(self) -> str:
        """This owner's name, for `messages.owner`; from now on others see it live. Raises `OSError`."""
        if self._file is None:
            file = (self._folder / (self._prefix + self.name)).open("xb")
            try:
                if not _try_lock(file):
                    raise OSError(f"{file.name} was locked by another program as soon as it was there")
            except BaseException:
                file.close()
                raise
            self._file = file
        return self.name

    def living(self) -> set[str]:
        """Names of the owners whose process runs, this one among them; removes the files of the others."""
        alive = {self.name}
        for path in self._folder.iterdir():
            if path.name.startswith(self._prefix) and path.name != self._prefix + self.name:
                try:
                    with path.open("r+b") as file:
                        dead = _try_lock(file)
                except FileNotFoundError:
                    continue
                except PermissionError:
                    dead = False  # Another account's process: never ours to take over.
                if dead:
                    path.unlink(missing_ok=True)
                else:
                    alive.add(path.name.removeprefix(self._prefix))
        return alive

    def release(self) -> None:
        """What this owner left unfinished is free to be recovered."""
        if self._file is not None:
            self._file.close()
            with suppress(OSError):  # Nobody holds its lock any more, so the next one to look removes it.
                Path(self._file.name).unlink()
            self._file = None
