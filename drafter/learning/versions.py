"""The learnt versions of a drafter, in a separate folder.

A version is a correction, a step graph with trained attention layers, or a correction of such a graph, each in a file
of weights. `versions.json` describes them and says which one is in use. That file is replaced atomically, last, so
after a kill or a full disk the previous version is in use and nothing is half written. Numbers count up, whatever the
clock says.
"""

from __future__ import annotations

import os
import shutil
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Self

import msgspec
import numpy as np

from drafter.learning.comparison import Judged
from drafter.step import Correction
from models.config import GRAPH, DrafterConfig, DrafterCorrupt, sha256
from models.files import replacing

INDEX = "versions.json"
OLDER = 2
"""Versions before the one in use whose weights are kept."""
REMEMBERED = 50
"""Most versions that are listed."""

State = Literal["in use", "older", "taken back", "not better"]


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt to learn."""

    number: int
    created: str
    """UTC, ISO 8601."""
    state: State
    answers: int
    """Number of answers that it learnt from or was judged on."""
    tokens: int
    """Tokens that it learnt from."""
    tau_before: float
    tau_after: float
    """Tokens per round on answers that it did not learn from, with the previous version and with this one."""
    low: float
    high: float
    """The 95 % interval of the gain, as a share."""
    fixed: float
    """The gain on the fixed set, as a share."""
    seconds: float
    sha256: str = ""
    """Checksum of its correction, hex; empty if it has none or it is not kept."""
    deep: bool = False
    """Whether the drafter's layers were trained, not only a correction."""
    graph: int = 0
    """Number of the version whose graph it drafts with, or 0 for the drafter's own graph."""
    graph_sha256: str = ""
    """Checksum of that graph, hex; empty if it is the drafter's own or is not kept."""
    messages: tuple[str, ...] = ()
    """Ids of the answers that it learnt from or was judged on."""
    server: str = ""
    """Name of the server that taught it; empty if this device did."""
    offered: str = ""
    """Digest by which that server offered it, hex."""

    @classmethod
    def judged(cls, answers: int, newest: Judged, fixed: Judged, seconds: float) -> Self:
        """One that was compared with the version in use, on the newest answers and on the fixed set."""
        return cls(
            number=0,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            state="not better",
            answers=answers,
            tokens=0,
            tau_before=newest.before,
            tau_after=newest.after,
            low=newest.low,
            high=newest.high,
            fixed=fixed.gain,
            seconds=seconds,
        )

    @property
    def kept(self) -> bool:
        """Whether it has weights that can be used."""
        return bool(self.sha256 or self.graph_sha256)


class Versions:
    """The versions of one drafter. `folder`: theirs alone, created when something is published."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def of(cls, learnt: Path, config: DrafterConfig) -> Versions:
        """The versions of the drafter with this config. `learnt`: the folder of all drafters' versions."""
        return cls(learnt / config.memory[:32] / config.files.get(GRAPH, config.memory)[:32])

    @property
    def stamp(self) -> tuple[int, int]:
        """A stamp that changes whenever a version goes live or is rolled back; (0, 0) if there is none."""
        try:
            about = (self.folder / INDEX).stat()
        except OSError:
            return 0, 0
        return about.st_mtime_ns, about.st_ino

    def all(self) -> list[Version]:
        """All versions, oldest first; none if the index cannot be read."""
        try:
            return msgspec.json.decode((self.folder / INDEX).read_bytes(), type=list[Version])
        except (OSError, msgspec.DecodeError):
            return []

    @property
    def in_use(self) -> Version | None:
        """The version in use, or None for the original drafter."""
        return next((one for one in self.all() if one.state == "in use"), None)

    @property
    def offered(self) -> set[str]:
        """Digests, hex, of the versions that servers offered and that were judged here."""
        return {one.offered for one in self.all() if one.offered}

    def graph(self, version: Version) -> Path | None:
        """The graph that a version drafts with, or None for the drafter's own. Raises `DrafterCorrupt`."""
        if not version.graph_sha256:
            return None
        path = self._graph(version.graph)
        try:
            if sha256(path) == version.graph_sha256:
                return path
            reason = "it does not match its checksum"
        except OSError as error:
            reason = str(error)
        raise DrafterCorrupt(f"{path} cannot be used: {reason}. To learn anew: outrider learn --deep")

    def load(self, version: Version, config: DrafterConfig) -> Correction:
        """The correction of a version, or one that changes nothing if it has none.

        Raises `DrafterCorrupt` if it is missing, damaged or another drafter's.
        """
        if not version.sha256:
            return Correction.none(config)
        path = self._weights(version.number)
        try:
            if sha256(path) != version.sha256:
                raise ValueError("it does not match its checksum")
            with np.load(path, allow_pickle=False) as file:
                found = Correction(file["down"], file["up"])
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise DrafterCorrupt(f"{path} cannot be used: {error}. To learn anew: outrider learn") from None
        kept = len(config.draft_vocabulary) or config.vocabulary
        rank = found.down.shape[-1]
        floats = found.down.dtype == found.up.dtype == np.float32
        if not floats or found.down.shape != (config.hidden, rank) or found.up.shape != (rank, kept):
            raise DrafterCorrupt(f"{path} is another drafter's. To learn anew: outrider learn")
        return found

    def publish(self, version: Version, correction: Correction | None, graph: Path | None = None) -> Version:
        """Add a version, number it, and put it in use if it has weights. Raises `OSError`.

        `graph`: a file on this disk, which becomes the version's own graph. Without one, it drafts with the graph
        that `version` names.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        versions = self.all()
        number = 1 + max((one.number for one in versions), default=0)
        version = msgspec.structs.replace(version, number=number)
        if graph is not None:
            os.replace(graph, self._graph(number))
            version = msgspec.structs.replace(version, graph=number, graph_sha256=sha256(self._graph(number)))
        if correction is not None:
            path = self._weights(number)
            with replacing(path) as part, part.open("wb") as file:
                np.savez(file, down=correction.down, up=correction.up)
                file.flush()
                os.fsync(file.fileno())
            version = msgspec.structs.replace(version, sha256=sha256(path))
        if correction is not None or graph is not None:
            version = msgspec.structs.replace(version, state="in use")
            versions = [_with(one, "older") if one.state == "in use" else one for one in versions]
        self._write([*versions, version])
        return version

    def roll_back(self) -> tuple[Version, Version | None] | None:
        """Roll back the version in use; its predecessor, or the original drafter, is used again.

        Returns the version that was rolled back and the one now in use, or None if none was in use. Raises `OSError`.
        """
        versions = self.all()
        now = next((one for one in versions if one.state == "in use"), None)
        if now is None:
            return None
        older = [one for one in versions if one.state == "older" and one.kept and self._is_there(one)]
        before = older[-1] if older else None
        states: dict[int, State] = {now.number: "taken back"}
        if before is not None:
            states[before.number] = "in use"
        self._write([_with(one, states.get(one.number, one.state)) for one in versions])
        return now, before

    def forget(self) -> None:
        """Delete all versions. Raises `OSError`."""
        if self.folder.is_dir():
            shutil.rmtree(self.folder)

    def scratch(self) -> Path:
        """An unused name in this folder for a graph that is being made. Raises `OSError`."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / ".graph.part"
        path.unlink(missing_ok=True)  # Left by a process that was killed.
        return path

    def _weights(self, number: int) -> Path:
        return self.folder / f"version-{number}.npz"

    def _graph(self, number: int) -> Path:
        return self.folder / f"version-{number}.onnx"

    def _is_there(self, version: Version) -> bool:
        files = [self._weights(version.number)] * bool(version.sha256)
        files += [self._graph(version.graph)] * bool(version.graph_sha256)
        return all(path.is_file() for path in files)

    def _write(self, versions: list[Version]) -> None:
        versions = versions[-REMEMBERED:]
        older = [one.number for one in versions if one.state == "older" and one.kept][-OLDER:]
        kept = {one.number: one for one in versions if one.state == "in use" or one.number in older}
        versions = [
            one if one.number in kept else msgspec.structs.replace(one, sha256="", graph_sha256="", messages=())
            for one in versions[:-1]
        ] + versions[-1:]
        with replacing(self.folder / INDEX) as part, part.open("wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(versions), indent=1))
            file.flush()
            os.fsync(file.fileno())
        files = {path for one in kept.values() for path in (self._weights(one.number), self._graph(one.graph))}
        for path in (*self.folder.glob("version-*.npz"), *self.folder.glob("version-*.onnx")):
            if path not in files:
                path.unlink(missing_ok=True)


def _with(version: Version, state: State) -> Version:
    return msgspec.structs.replace(version, state=state)
