"""A lock for work that only one server per machine may do at a time."""

from __future__ import annotations

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
