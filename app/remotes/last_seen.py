"""Which model was last seen at each address, so that the drafter never answers for a model that it does not fit.

A model is known by the digest of its memory, which belongs to one target and its drafter. An address that was never
seen fits no drafter, nor does one where another kind of server answers.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

from app.files import one_at_a_time, write_private

MOST = 200
"""Most addresses that are kept; the oldest are forgotten first."""


class LastSeen:
    """Memory digests by address, in a file. Without `path`, only this run of the program remembers them."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._known = self._read()

    def memory(self, address: str) -> bytes | None:
        """The memory digest of the model that was last seen at an address; None where there is none."""
        try:
            return bytes.fromhex(self._known.get(_key(address), "")) or None
        except ValueError:
            return None

    def note(self, address: str, digest: bytes | None) -> None:
        """Remember the model at an address. Where the file cannot be written, only this run of the program knows it."""
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

    def beside(self, name: str) -> Path | None:
        """A file of this name in the same folder; None: nothing is kept."""
        return None if self._path is None else self._path.with_name(name)

    def _read(self) -> dict[str, str]:
        """The file's content; empty where there is none, or it is not one of ours."""
        if self._path is None:
            return {}
        try:
            found: Any = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return {key: value for key, value in found.items() if isinstance(value, str)} if isinstance(found, dict) else {}


def _key(address: str) -> str:
    return address.strip().rstrip("/")
