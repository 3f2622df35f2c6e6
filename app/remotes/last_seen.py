"""Which model was last seen at an address, so that the drafter never writes in the place of one it was not made for.

A model is known by the digest of its memory, which belongs to one target and its drafter. An address that was never
seen, or where another kind of server answers, is not known to fit any drafter.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

from app.files import one_at_a_time, write_private

MOST = 200
"""Addresses that are kept; those that were seen longest ago are forgotten."""


class Seen:
    """What a file remembers of the servers of this device; without a file, what this run of the program has seen."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._known = self._read()

    def memory(self, address: str) -> bytes | None:
        """The memory digest of the model that was last seen there; None where it has none or nothing was seen."""
        try:
            return bytes.fromhex(self._known.get(_key(address), "")) or None
        except ValueError:
            return None

    def note(self, address: str, digest: bytes | None) -> None:
        """Remember who is there now. Where the file cannot be written, only this run of the program knows it."""
        key, value = _key(address), "" if digest is None else digest.hex()
        if self._known.get(key) == value:
            return
        self._known[key] = value
        if self._path is None:
            return
        with contextlib.suppress(OSError), one_at_a_time(self._path):
            known = self._read()
            known.pop(key, None)
            known[key] = value
            self._known = dict(list(known.items())[-MOST:])
            write_private(self._path, json.dumps(self._known, indent=1))

    def _read(self) -> dict[str, str]:
        """Nothing where there is no file, or not one of ours: then each server is seen anew."""
        if self._path is None:
            return {}
        try:
            found: Any = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return {key: value for key, value in found.items() if isinstance(value, str)} if isinstance(found, dict) else {}


def _key(address: str) -> str:
    return address.strip().rstrip("/")
