"""What the screen keeps from one start to the next: the theme, and whether the panel was open.

A file beside the database, for the program alone; what a person writes is the settings file, which is never touched.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from app.files import write_private


class SavedState(msgspec.Struct, kw_only=True):
    """Each field as it was left; the defaults are those of a first start."""

    theme: str = ""
    panel: bool = False

    @classmethod
    def load(cls, path: Path) -> SavedState:
        """What cannot be read, or is not ours, counts as a first start."""
        try:
            return msgspec.json.decode(path.read_bytes(), type=cls)
        except (OSError, msgspec.DecodeError):
            return cls()

    def save(self, path: Path) -> None:
        """Raises `OSError`."""
        write_private(path, msgspec.json.encode(self).decode())
