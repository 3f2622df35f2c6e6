"""Files for this person's eyes only: whole or not written at all, whatever happens in between."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

if sys.platform != "win32":
    import fcntl

TURN_SECONDS = 2.0
"""Longest wait for another window; a change takes milliseconds. One that was stopped half way must not stop all."""


def write_private(path: Path, text: str) -> None:
    """Replace a file by one with mode 0600, in one step; its folder is made where it is missing. Raises `OSError`."""
    path = path.resolve()  # A link stays one: people keep such files in a repository of their own.
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # Made with mode 0600.
    try:
        with open(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


@contextlib.contextmanager
def one_at_a_time(path: Path) -> Iterator[None]:
    """Keeps other windows from changing a file while it is read, changed and written here. Raises `OSError`.

    Its folder is locked, since the file itself is replaced; on Windows, which locks no folders, the last one wins.
    """
    if sys.platform == "win32":
        yield
        return
    folder = path.resolve().parent
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        deadline = time.monotonic() + TURN_SECONDS
        while time.monotonic() < deadline:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(0.005)
            except OSError:  # A file system that knows no locks.
                break
        yield
    finally:
        os.close(handle)


def is_private(path: Path) -> bool:
    """Whether nobody else on this device can read it. Windows keeps that elsewhere, and is taken to see to it."""
    return os.name != "posix" or not path.stat().st_mode & 0o077
