"""How often a drafter's guesses were accepted, kept from one start of the program to the next.

There is a file of a few numbers for each drafter and learnt version. It affects the size of drafts, never an answer, so
files that cannot be read or written are ignored.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec

from app.files import write_private
from drafter.calibration import Calibration
from drafter.runtime import Drafter


class Calibrations:
    """Reads and writes calibrations in `folder`, or starts without any each time if it is None."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def load(self, drafter: Drafter) -> Calibration:
        """The calibration of a drafter in its current version, or a new one if there is none."""
        if self._folder is not None:
            with contextlib.suppress(OSError, ValueError, msgspec.MsgspecError):
                return Calibration.load(msgspec.json.decode(self._file(drafter).read_bytes(), type=list[float]))
        return Calibration()

    def save(self, drafter: Drafter, calibration: Calibration) -> None:
        numbers = calibration.dump()
        if self._folder is None or numbers == Calibration().dump():
            return
        with contextlib.suppress(OSError):
            write_private(self._file(drafter), msgspec.json.encode(numbers).decode())

    def _file(self, drafter: Drafter) -> Path:
        assert self._folder is not None
        return self._folder / f"calibration-{drafter.config.memory[:32]}-{drafter.version}.json"
