"""The errors of the store, and what a failure of SQLite or of the disk means for the user.

StorageError
├── StorageFull        the disk has no room left
├── StorageReadOnly    the file or its folder may not be written
├── StorageBusy        another process held the database for too long
├── NotADatabase       the file is damaged, or is not our database
├── NeedsWriting       an older version made the tables, so the file cannot be opened read-only
├── NewerDatabase      a newer version has changed the tables
├── StorageFailed      any other failure of the disk or the file system
├── NotFound           there is no such conversation or message
└── AlreadyFinished    a finished message never changes
"""

from __future__ import annotations

import errno
import os
import sqlite3
from pathlib import Path

UNLOCKABLE = (
    sqlite3.SQLITE_IOERR_LOCK,
    sqlite3.SQLITE_IOERR_RDLOCK,
    sqlite3.SQLITE_IOERR_UNLOCK,
    sqlite3.SQLITE_IOERR_CHECKRESERVEDLOCK,
    sqlite3.SQLITE_IOERR_SHMLOCK,
    sqlite3.SQLITE_IOERR_SHMMAP,
    sqlite3.SQLITE_IOERR_SHMOPEN,
    sqlite3.SQLITE_IOERR_SHMSIZE,
)
"""Errors of file systems without locks, or whose files processes cannot share in memory."""
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


class NeedsWriting(StorageError):
    pass


class NewerDatabase(StorageError):
    pass


class StorageFailed(StorageError):
    pass


class NotFound(StorageError):
    pass


class TooManyTags(StorageError):
    pass


class AlreadyFinished(StorageError):
    pass


def explain(error: sqlite3.Error | OSError, path: Path) -> StorageError:
    """The `StorageError` that explains to a person what `error` means for the database at `path`."""
    if isinstance(error, OSError):
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        read_only = error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
        if error.errno in (errno.EEXIST, errno.ENOTDIR) and (wrong := _in_the_way(path)):
            return StorageFailed(wrong)
        code = sqlite3.SQLITE_FULL if full else sqlite3.SQLITE_READONLY if read_only else sqlite3.SQLITE_IOERR
    else:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
        # The low byte is the kind of error.
        code = sqlite3.SQLITE_PROTOCOL if code in UNLOCKABLE else code & 0xFF
    match code:
        case sqlite3.SQLITE_FULL:
            return StorageFull(f"The disk is too full to save to {path}; free some disk space, then try again.")
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            return StorageReadOnly(
                _in_the_way(path)
                or f"The {_unwritable(path)} may not be written; change its permissions, "
                "or set OUTRIDER_HOME to a folder that you can write to."
            )
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StorageBusy(f"Another program is using {path}; close it or wait a moment, then try again.")
        case sqlite3.SQLITE_PROTOCOL:
            return StorageFailed(
                f"Files in {path.parent} cannot be locked, as in some network folders, so nothing can be saved there; "
                "set OUTRIDER_HOME to a folder on a disk of this device."
            )
        case sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_CORRUPT:
            return NotADatabase(
                f"{path} is damaged or not a database; move it away to start afresh, or put a backup in its place."
            )
        case _:
            return StorageFailed(f"Saving to {path} failed ({error}); check that the disk is healthy and connected.")


def _in_the_way(path: Path) -> str:
    """What blocks the path of the database or its folder, such as a file of that name; empty if nothing does."""
    if os.path.isdir(path):
        return f"{path} is a folder, but the database must be a file of that name; move it away."
    folder = next((one for one in path.parents if os.path.lexists(one)), path)
    if not os.path.isdir(folder):
        return f"{folder} is not a folder; move it away, or set OUTRIDER_HOME to a folder."
    return ""


def _unwritable(path: Path) -> str:
    """The file or folder of a database that is not writable, as far as can be determined."""
    folder = next((one for one in path.parents if os.path.lexists(one)), path.parent)
    if os.access(folder, os.W_OK | os.X_OK, effective_ids=_EFFECTIVE):
        for file in (path, *(path.with_name(path.name + side) for side in ("-wal", "-shm"))):
            if os.path.lexists(file) and not os.access(file, os.R_OK | os.W_OK, effective_ids=_EFFECTIVE):
                return f"file {file}"
    return f"folder {folder}"
