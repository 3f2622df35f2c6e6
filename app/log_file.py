"""Reads the log while others write it: its last lines, then what is added, also after it has turned over."""

from __future__ import annotations

import os
from pathlib import Path

from app.sanitise import sanitise

MOST_BYTES = 1 << 20
"""Read at once: more than a log holds before it turns over."""


class LogFile:
    """Its lines are sanitised: what is logged is clean, but anybody may write to a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._at = 0
        self._file: tuple[int, int] | None = None
        """Device and inode: which file was read last."""
        self._rest = b""

    def last(self, lines: int) -> list[str]:
        """The last lines; none where there is no log. Raises `OSError`."""
        new = self.new()
        return new[-lines:] if lines else []

    def new(self) -> list[str]:
        """Whole lines that were added since the last call; the first reads the file from its beginning.

        Raises `OSError` for a file that cannot be read; one that is not there has no lines.
        """
        try:
            with self.path.open("rb") as file:
                status = os.fstat(file.fileno())
                which = status.st_dev, status.st_ino
                if which != self._file or status.st_size < self._at:
                    self._file, self._at, self._rest = which, max(0, status.st_size - MOST_BYTES), b""
                file.seek(self._at)
                data = self._rest + file.read(MOST_BYTES)
                self._at = file.tell()
        except FileNotFoundError:
            return []
        whole, newline, self._rest = data.rpartition(b"\n")
        return [sanitise(line) for line in whole.decode("utf-8", "replace").split("\n")] if newline else []
