"""How fast each mode was with each server, so that the next start begins in the mode that won.

A server is known by its address, its target and the drafter of this device. If one of them changes, nothing is known.
"""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path

import msgspec

from app.files import one_at_a_time, write_private
from app.remotes.mode_meter import Learnt
from models.config import GRAPH, GRAPH_WEIGHTS, DrafterConfig
from remote.protocol import Card

FILE = "modes.json"
MOST = 100
"""Most servers that are kept; those that were asked longest ago are forgotten first."""


class ModeRecord:
    """What was learnt, in a file. Without `path`, nothing is kept."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def load(self, key: str) -> Learnt | None:
        """What was learnt under a key; None: nothing, or the file cannot be read."""
        return self._read().get(key)

    def save(self, key: str, learnt: Learnt) -> None:
        """Keep what was learnt, if the file can be written."""
        if self._path is None:
            return
        with contextlib.suppress(OSError), one_at_a_time(self._path):
            known = self._read()
            known.pop(key, None)
            known[key] = learnt
            kept = dict(list(known.items())[-MOST:])
            write_private(self._path, msgspec.json.format(msgspec.json.encode(kept), indent=1).decode())

    def _read(self) -> dict[str, Learnt]:
        if self._path is None:
            return {}
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, Learnt])
        except (OSError, msgspec.DecodeError):
            return {}


def key_of(address: str | None, card: Card, drafter: DrafterConfig) -> str:
    """The key of a server with this target, and of a drafter. `address` None: this program's own server."""
    memory = "" if card.memory is None else card.memory.digest.hex()
    graph = [drafter.files.get(name, "") for name in (GRAPH, GRAPH_WEIGHTS)]
    parts = [(address or "").strip().rstrip("/"), card.target, memory, *graph]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
