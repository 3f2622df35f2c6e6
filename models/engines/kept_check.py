"""Keeps how llama.cpp reads draft trees of a GGUF file, because trying it takes longer than loading a small model."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from models.files import replacing


class TreeCheck(msgspec.Struct, frozen=True):
    """How draft trees of a model are read."""

    why_none: str | None
    """Why there can be no trees, or None if there can be."""
    alike: int | None
    """Largest piece of a draft, so that its rows have the same bits as alone, or None for any size."""


def checked(files: Sequence[Path], about: str, kept: Path | None, check: Callable[[], TreeCheck]) -> TreeCheck:
    """What `check` found for these files, or finds now. Raises what it raises.

    `about`: what else the result depends on: the library and the processor. `kept`: the folder, if it is kept.
    """
    if kept is None:
        return check()
    stats = [(str(file.resolve()), (stat := file.stat()).st_size, stat.st_mtime_ns) for file in files]
    place = kept / f"trees-{hashlib.sha256(repr((stats, about)).encode()).hexdigest()[:24]}.json"
    with contextlib.suppress(OSError, msgspec.DecodeError):
        return msgspec.json.decode(place.read_bytes(), type=TreeCheck)
    found = check()
    with contextlib.suppress(OSError):  # A full disk costs only the time of the next check.
        kept.mkdir(parents=True, exist_ok=True)
        with replacing(place) as new:
            new.write_bytes(msgspec.json.encode(found))
    return found
