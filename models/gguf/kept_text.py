"""Text sides made from GGUF files, cached in a folder so that each is made once.

There is one folder per file, by its path. It is used as long as the file's size and time, and the folder's contents,
are unchanged; otherwise it is made again.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

import msgspec

MADE_AS = 1
"""Version of the way text sides are made, so that one made in an older way is no longer used."""
MANIFEST = "made.json"
log = logging.getLogger(__name__)


class Manifest(msgspec.Struct, frozen=True):
    """What a cached text side was made from."""

    made_as: int
    size: int
    modified: int
    """Bytes of the GGUF file, and its time in nanoseconds."""
    files: dict[str, str]
    """Digest of each file."""


def kept_text(path: Path, kept: Path) -> Path | None:
    """The folder with the text side of a GGUF file, or None if there is none, or an old or damaged one."""
    folder = _place(path, kept)
    with contextlib.suppress(OSError, msgspec.DecodeError):
        manifest = msgspec.json.decode((folder / MANIFEST).read_bytes(), type=Manifest)
        if manifest == _manifest_of(path, folder, manifest.files):
            return folder
    return None


def keep_text(path: Path, made: Path, kept: Path) -> None:
    """Keep the files of the folder `made` as the text side of a GGUF file, if the cache can be written."""
    place = _place(path, kept)
    try:
        kept.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept, prefix=f".{place.name}.") as scratch:
            new = Path(shutil.copytree(made, Path(scratch) / "new", ignore=shutil.ignore_patterns(MANIFEST)))
            names = [file.name for file in new.iterdir()]
            manifest = _manifest_of(path, new, names)
            (new / MANIFEST).write_bytes(msgspec.json.encode(manifest))
            if place.exists():
                os.replace(place, Path(scratch) / "older")
            os.replace(new, place)
    except OSError as error:  # Another server may have put its own there at the same moment.
        log.info("The tokenizer of %s is not kept: %s", path.name, error)


def _place(path: Path, kept: Path) -> Path:
    name = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:16]
    return kept / f"{path.stem[:40]}-{name}"


def _manifest_of(path: Path, folder: Path, names: Iterable[str]) -> Manifest:
    """The manifest of these files of a folder in their current state; a missing file has no digest."""
    about = path.stat()
    files = {name: _digest(folder / Path(name).name) for name in names}
    return Manifest(MADE_AS, about.st_size, about.st_mtime_ns, files)


def _digest(file: Path) -> str:
    try:
        return hashlib.blake2b(file.read_bytes(), digest_size=16).hexdigest()
    except OSError:
        return ""
