"""Files of drafters that several servers of a machine, or several drafters, share: locks and links."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from filelock import BaseFileLock, FileLock, Timeout


def locked(file: Path, what: str) -> BaseFileLock:
    """Lock a file until the lock is released or the process ends. Raises `OSError` if another process holds it.

    `what`: what that one does, for the message.
    """
    lock = FileLock(file)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise OSError(f"another server on this machine {what}") from None
    return lock


def linked(source: str | Path, copy: str | Path) -> None:
    """Hard-link a file to another path, or copy it if the file system has no links."""
    try:
        os.link(Path(source).resolve(), copy)
    except OSError:
        shutil.copyfile(source, copy)
