"""The drafters on this device: the one named in the settings, and those fetched from servers or made here.

Each fits one target. Fetched ones are kept on a *shelf*, each in a folder named after its digest
(`drafter/delivery.py`); those that a verifier made on this device are on another shelf. A drafter that does not guess
well enough (`drafter/floors.py`) stays on its shelf and is not used.
"""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec

from drafter.floors import why_no_drafts
from drafter.runtime import Drafter
from models.config import DrafterConfig, DrafterError, Measured, read_config
from models.files import replacing

UNDER_WAY = ".part"
"""Suffix of the folder of an incomplete drafter."""


FIGURES = "measured.json"
"""File on a shelf with the figures measured here, by folder name, of drafters that came without any. Their own configs
stay unchanged, because these determine their digests."""


def kept(shelf: Path) -> Iterator[tuple[Path, DrafterConfig]]:
    """The folders of the complete drafters on a shelf, with their configs, except those that cannot be read.

    A config without figures gets those that were measured here.
    """
    figures = _figures(shelf)
    try:
        folders = sorted(path for path in shelf.iterdir() if path.is_dir() and path.suffix != UNDER_WAY)
    except OSError:
        return
    for folder in folders:
        try:
            config = read_config(folder)
        except DrafterError:
            continue
        if isinstance(config.measured, msgspec.UnsetType) and folder.name in figures:
            config = msgspec.structs.replace(config, measured=figures[folder.name])
        yield folder, config


def keep_figures(folder: Path, measured: Measured) -> None:
    """Store the figures that were measured here of the drafter in a folder of a shelf. Raises `OSError`."""
    with replacing(folder.parent / FIGURES) as written:
        written.write_bytes(msgspec.json.encode({**_figures(folder.parent), folder.name: measured}))


def _figures(shelf: Path) -> dict[str, Measured]:
    """The figures measured here; none if the file cannot be read, so that they are measured again."""
    with contextlib.suppress(OSError, msgspec.DecodeError):
        return msgspec.json.decode((shelf / FIGURES).read_bytes(), type=dict[str, Measured])
    return {}


def remove(shelf: Path, name: str) -> bool:
    """Delete the fetched drafter whose digest begins with `name`, complete or not. Returns False if there is none.

    Raises `OSError`.
    """
    named = shelf.glob("*/") if name and shelf.is_dir() else ()
    found = [path for path in named if path.name.startswith(name)]
    for path in found:
        shutil.rmtree(path)
    return bool(found)


class Drafters:
    """Finds the drafter for a target, and opens it at its first use.

    `first`: the drafter of the settings. `shelf`: folder of the fetched ones, if any. `made`: folder of those made
    here. Thread-safe.
    """

    def __init__(self, first: Drafter, shelf: Path | None = None, made: Path | None = None) -> None:
        self.first = first
        self.shelf = shelf
        self._shelves = [place for place in (made, shelf) if place is not None]
        self._opened: dict[bytes, Drafter] = {first.memory_digest: first}
        self._lock = threading.Lock()

    def has(self, memory: bytes | None) -> bool:
        """Whether there is a drafter for memory with this digest that may draft. Reads only configs."""
        config = self.config(memory)
        return config is not None and (memory == self.first.memory_digest or why_no_drafts(config) is None)

    def config(self, memory: bytes | None) -> DrafterConfig | None:
        """The config of the drafter for memory with this digest, with its figures, or None.

        If there are several, it is the one that `of_memory` opens.
        """
        if memory is None or memory == self.first.memory_digest:
            return None if memory is None else self.first.config
        same = [config for _, config in self._kept() if config.memory_digest == memory]
        return next((config for config in same if why_no_drafts(config) is None), same[0] if same else None)

    def of_memory(self, memory: bytes | None) -> Drafter | None:
        """The drafter for memory with this digest, or None if there is none that may draft. May read files.

        The first one may always draft, because a person chose it. A damaged one counts as missing, so it is fetched
        again.
        """
        if memory is None:
            return None
        with self._lock:
            if memory not in self._opened:
                for folder, config in self._kept():
                    if config.memory_digest == memory and why_no_drafts(config) is None:
                        try:
                            self._opened[memory] = Drafter.load(folder)
                        except DrafterError:
                            continue
            return self._opened.get(memory)

    def unmeasured(self) -> list[tuple[Path, DrafterConfig]]:
        """The drafters on the shelves without known figures, with their folders."""
        return [one for one in self._kept() if isinstance(one[1].measured, msgspec.UnsetType)]

    def fitting(self, tokenizer: bytes, vocabulary: int, memory: bytes | None) -> Drafter | None:
        """The drafter that was made for a target, or else the first one if it has the target's tokenizer, or None.

        `tokenizer`, `memory`: the digests of the target's tokenizer and of its memory. May read files.
        """
        for drafter in (self.of_memory(memory), self.first):
            if drafter is not None and (drafter.text.digest, drafter.config.vocabulary) == (tokenizer, vocabulary):
                return drafter
        return None

    def _kept(self) -> Iterator[tuple[Path, DrafterConfig]]:
        for shelf in self._shelves:
            yield from kept(shelf)
