"""What the screen keeps from one start to the next: the theme, whether the panel is open, what was answered once.

It is a file beside the database that only the program writes. People write the settings file, which is never changed.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from app.files import write_private


class SavedState(msgspec.Struct, kw_only=True):
    """The screen as it was left. The defaults are those of a first start."""

    theme: str = ""
    panel: bool = False
    look_answered: bool = False
    """The person has said whether to look for model servers on this device. They are not asked again."""

    @classmethod
    def load(cls, path: Path) -> SavedState:
        """Read the file. A file that is missing or damaged counts as a first start."""
        try:
            return msgspec.json.decode(path.read_bytes(), type=cls)
        except (OSError, msgspec.DecodeError):
            return cls()

    def save(self, path: Path) -> None:
        """Raises `OSError`."""
        write_private(path, msgspec.json.encode(self).decode())
