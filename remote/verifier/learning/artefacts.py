"""Learnt drafters on disk: a folder for each one, and only the newest of each holder.

A folder has the files that a device gets. All but the graph and the config are copies of the original drafter's. It
appears whole or not at all, and is named after its digest.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from filelock import BaseFileLock

from drafter.delivery import Delivery, delivery, file_names
from models.config import CONFIG, GRAPH, DrafterConfig, DrafterError, read_config, write_config
from remote.verifier.shared_files import linked, locked

ABOUT = "learnt.json"
KEPT = 2
"""The newest and the previous one, so that a device that is fetching the latter can finish."""
UNDER_WAY = ".part"


class Gain(msgspec.Struct, frozen=True):
    """How much better a learnt drafter is. Tokens a round are as in `drafter.learning.comparison.Judged`."""

    answers: int
    """Answers that it learnt from or was judged on."""
    before: float
    after: float
    """Tokens per round on answers that it did not learn from, with the previous drafter and with this one."""
    low: float
    high: float
    """The 95 % interval of the gain, as a share."""
    fixed: float
    """The gain on older answers, as a share."""


class Learnt(Gain, frozen=True, kw_only=True):
    """What is known of a learnt drafter: no text, and nothing that reveals who asked."""

    number: int
    """Counts up."""
    created: str
    """UTC, ISO 8601."""


@dataclass(frozen=True)
class Artefact:
    """A learnt drafter on disk."""

    folder: Path
    about: Learnt
    delivery: Delivery

    @property
    def graph(self) -> Path:
        return self.folder / GRAPH


class Artefacts:
    """The drafters that were learnt from the one in `base`.

    `folder`: of everything learnt by this machine's servers.
    """

    def __init__(self, folder: Path, base: Path, config: DrafterConfig) -> None:
        self.folder = folder / config.memory[:32] / config.files.get(GRAPH, "")[:32]
        self._base, self._config = base, config

    def scratch(self, holder: str) -> Path:
        """A new temporary file for a graph that is being learnt. Raises `OSError`."""
        path = self.folder / holder / f"{GRAPH}{UNDER_WAY}"
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.unlink(missing_ok=True)
        return path

    def publish(self, holder: str, graph: Path, gain: Gain) -> Artefact:
        """Make a drafter of a learnt graph, which is moved, number it, and remove older ones.

        Raises `OSError`, `DrafterError`.
        """
        before = self.all(holder)
        number = 1 + max((one.about.number for one in before), default=0)
        created = datetime.now(UTC).isoformat(timespec="seconds")
        about = Learnt(**msgspec.structs.asdict(gain), number=number, created=created)
        part = self.folder / holder / f"drafter{UNDER_WAY}"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(mode=0o700)
        for name in file_names(self._config):
            if name != GRAPH:
                linked(self._base / name, part / name)
        os.replace(graph, part / GRAPH)
        write_config(part, self._config)
        (part / ABOUT).write_bytes(msgspec.json.encode(about))
        for name in (GRAPH, CONFIG, ABOUT):
            with (part / name).open("rb") as file:
                os.fsync(file.fileno())
        made = delivery(part)
        folder = part.with_name(made.digest.hex())
        if folder.exists():  # It learnt the same again, bit for bit.
            shutil.rmtree(folder)
        os.replace(part, folder)
        self._forget([one for one in before if one.folder != folder][: 1 - KEPT])
        return Artefact(folder, about, made)

    def all(self, holder: str) -> list[Artefact]:
        """The drafters of a holder, oldest first, without damaged ones. Reads files."""
        found = []
        for folder in self._folders(holder):
            try:
                about = msgspec.json.decode((folder / ABOUT).read_bytes(), type=Learnt)
                config = read_config(folder, verify=(GRAPH,))
                if msgspec.structs.replace(config, files={}) == msgspec.structs.replace(self._config, files={}):
                    found.append(Artefact(folder, about, delivery(folder)))
            except (OSError, DrafterError, msgspec.DecodeError):
                continue
        return sorted(found, key=lambda one: one.about.number)

    def lock(self) -> BaseFileLock:
        """Keep other servers from learning for the same drafter. Raises `OSError` if one does."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return locked(self.folder / "lock", "learns for the same drafter")

    def tidy(self) -> None:
        """Remove what a process that was killed left unfinished."""
        for path in self.folder.glob(f"*/*{UNDER_WAY}"):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                with contextlib.suppress(OSError):
                    path.unlink()

    def _folders(self, holder: str) -> list[Path]:
        try:
            return [path for path in (self.folder / holder).iterdir() if path.is_dir() and path.suffix != UNDER_WAY]
        except OSError:
            return []

    def _forget(self, older: Sequence[Artefact]) -> None:
        for one in older:
            shutil.rmtree(one.folder, ignore_errors=True)
