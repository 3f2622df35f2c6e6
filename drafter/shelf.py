"""The drafters on this device: the one that the settings name, and those that were fetched from servers.

Each fits one target. Those that were fetched lie on a *shelf*, each in a folder that is named by its digest
(`drafter/delivery.py`); those that a verifier made on this device lie on another one. One that does not guess well
enough (`drafter/floors.py`) stays on its shelf and is not used.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec

from drafter.floors import why_no_drafts
from drafter.runtime import Drafter
from models.config import DrafterConfig, DrafterError, Measured, read_config

UNDER_WAY = ".part"
"""Ending of the folder of a drafter that is not complete."""


FIGURES = "measured.json"
"""On a shelf: what was measured here of drafters that came without figures, by the names of their folders. Their own
configs stay as they are, because these name them by digest."""


def kept(shelf: Path) -> Iterator[tuple[Path, DrafterConfig]]:
    """The folders of the complete drafters on a shelf, with their configs. Those that cannot be read are left out.

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
    """Keep what was measured here of the drafter in a folder of a shelf. Raises `OSError`."""
    path = folder.parent / FIGURES
    written = path.with_suffix(f".{os.getpid()}")
    written.write_bytes(msgspec.json.encode({**_figures(folder.parent), folder.name: measured}))
    os.replace(written, path)


def _figures(shelf: Path) -> dict[str, Measured]:
    """What was measured here; nothing where the file cannot be read, so that it is measured again."""
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
    """Finds the drafter for a target, and opens it when it is wanted for the first time.

    `first`: the drafter of the settings. `shelf`: folder of the fetched ones, if any. `made`: where
    those lie that were made here. Threads may share it.
    """

    def __init__(self, first: Drafter, shelf: Path | None = None, made: Path | None = None) -> None:
        self.first = first
        self.shelf = shelf
        self._shelves = [place for place in (made, shelf) if place is not None]
        self._opened: dict[bytes, Drafter] = {first.memory_digest: first}
        self._lock = threading.Lock()

    def has(self, memory: bytes | None) -> bool:
        """Whether a drafter that reads memory of this digest may draft. Reads configs at most."""
        config = self.config(memory)
        return config is not None and (memory == self.first.memory_digest or why_no_drafts(config) is None)

    def config(self, memory: bytes | None) -> DrafterConfig | None:
        """The config of the drafter that reads memory of this digest, with its figures, or None.

        Of several, it is the one that `of_memory` opens.
        """
        if memory is None or memory == self.first.memory_digest:
            return None if memory is None else self.first.config
        same = [config for _, config in self._kept() if bytes.fromhex(config.memory) == memory]
        return next((config for config in same if why_no_drafts(config) is None), same[0] if same else None)

    def of_memory(self, memory: bytes | None) -> Drafter | None:
        """The drafter that reads memory of this digest, or None if there is none that may draft. May read files.

        The first one may always draft: a person chose it. One that is damaged counts as none: it is fetched again.
        """
        if memory is None:
            return None
        with self._lock:
            if memory not in self._opened:
                for folder, config in self._kept():
                    if bytes.fromhex(config.memory) == memory and why_no_drafts(config) is None:
                        try:
                            self._opened[memory] = Drafter.load(folder)
                        except DrafterError:
                            continue
            return self._opened.get(memory)

    def unmeasured(self) -> list[tuple[Path, DrafterConfig]]:
        """The drafters on the shelves of which no figures are known, with their folders."""
        return [one for one in self._kept() if isinstance(one[1].measured, msgspec.UnsetType)]

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
