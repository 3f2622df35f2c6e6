"""Files for this person's eyes only: whole or not written at all, whatever happens in between."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path


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


def is_private(path: Path) -> bool:
    """Whether nobody else on this device can read it. Windows keeps that elsewhere, and is taken to see to it."""
    return os.name != "posix" or not path.stat().st_mode & 0o077
