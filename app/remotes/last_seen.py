"""Remembers which model was last seen at each address, so that the drafter never answers for an unfit model.

A model is known by the digest of its memory, which belongs to one target and its drafter. An unknown address fits no
drafter, nor does one where another kind of server answers.
"""

from __future__ import annotations

from pathlib import Path

from app.remotes.notes import Notes, newest

MOST = 200
"""Most addresses that are kept."""


class LastSeen:
    """Memory digests by address, in a file. Without `path`, they are remembered only for this run of the program."""

    def __init__(self, path: Path | None = None) -> None:
        self._notes = Notes(path, dict[str, str])
        self._known = self._notes.read()

    def memory(self, address: str) -> bytes | None:
        try:
            return bytes.fromhex(self._known.get(_key(address), "")) or None
        except ValueError:
            return None

    def note(self, address: str, digest: bytes | None) -> None:
        """Remember the model at an address. If the file cannot be written, only this run of the program knows it."""
        key, value = _key(address), "" if digest is None else digest.hex()
        if self._known.get(key) != value:
            self._known = newest(self._known, {key: value}, MOST)
            self._notes.change(lambda known: newest(known, {key: value}, MOST))

    def beside(self, name: str) -> Path | None:
        """The path of another file in the same folder, or None if nothing is kept."""
        return None if self._notes.path is None else self._notes.path.with_name(name)


def _key(address: str) -> str:
    return address.strip().rstrip("/")
