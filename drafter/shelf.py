"""The drafters on this device: the one that the settings name, and those that were fetched from servers.

Each fits one target. Those that were fetched lie on a *shelf*, each in a folder that is named by its digest
(`drafter/delivery.py`); those that a verifier made on this device lie on another one.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

from drafter.config import DrafterConfig, DrafterError, read_config
from drafter.runtime import Drafter

UNDER_WAY = ".part"
"""Ending of the folder of a drafter that is not complete."""


def kept(shelf: Path) -> Iterator[tuple[Path, DrafterConfig]]:
    """The folders of the complete drafters on a shelf, with their configs. Those that cannot be read are left out."""
    try:
        folders = sorted(path for path in shelf.iterdir() if path.is_dir() and path.suffix != UNDER_WAY)
    except OSError:
        return
    for folder in folders:
        try:
            yield folder, read_config(folder)
        except DrafterError:
            continue


def remove(shelf: Path, name: str) -> bool:
    """Delete the fetched drafter whose digest begins with `name`, also one that is not complete. False: there is none.

    Raises `OSError`.
    """
    found = [path for path in shelf.iterdir() if path.name.startswith(name)] if name and shelf.is_dir() else []
    for path in found:
        shutil.rmtree(path)
    return bool(found)


class Drafters:
    """Finds the drafter for a target, and opens it when it is wanted for the first time.

    `first`: the drafter of the settings. `shelf`: where fetched ones lie; None: there is only the first. `made`: where
    those lie that were made here. Threads may share it.
    """

    def __init__(self, first: Drafter, shelf: Path | None = None, made: Path | None = None) -> None:
        self.first = first
        self.shelf = shelf
        self._shelves = [place for place in (made, shelf) if place is not None]
        self._opened: dict[bytes, Drafter] = {first.memory_digest: first}
        self._lock = threading.Lock()

    def has(self, memory: bytes | None) -> bool:
        """Whether there is a drafter that reads memory of this digest. Reads configs at most."""
        if memory is None or memory in self._opened:
            return memory is not None
        return any(bytes.fromhex(config.memory) == memory for _, config in self._kept())

    def of_memory(self, memory: bytes | None) -> Drafter | None:
        """The drafter that reads memory of this digest; None: there is none. May read files.

        One that is damaged counts as none: it is fetched again.
        """
        if memory is None:
            return None
        with self._lock:
            if memory not in self._opened:
                for folder, config in self._kept():
                    if bytes.fromhex(config.memory) == memory:
                        try:
                            self._opened[memory] = Drafter.load(folder)
                        except DrafterError:
                            continue
            return self._opened.get(memory)

    def fitting(self, tokenizer: bytes, vocabulary: int, memory: bytes | None) -> Drafter | None:
        """The drafter that was made for a target; else the first one, if it speaks the target's tokens; else None.

        `tokenizer`: digest of the target's tokenizer. `memory`: that of its memory. May read files.
        """
        for drafter in (self.of_memory(memory), self.first):
            if drafter is not None and (drafter.text.digest, drafter.config.vocabulary) == (tokenizer, vocabulary):
                return drafter
        return None

    def _kept(self) -> Iterator[tuple[Path, DrafterConfig]]:
        for shelf in self._shelves:
            yield from kept(shelf)
