"""The files that a command of `benchmarks.execution` works on: created before it runs, and read afterwards.

A tree is declared as a mapping from paths to files. A file is its text, or an object with some of these keys: `text`;
`lines`, a range `[first, last]` of numbered lines; `size`, a number of zero bytes; `gzip`, text to compress; `tar`,
`tgz` or `zip`, a mapping from names to texts to pack; `link`, the target of a symbolic link; `mode`, as in `"644"`;
`days`, its age. A path that ends with `/` is a folder. `{date:%F}` in a path or a text stands for today, in UTC.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import stat
import tarfile
import time
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

DAY = 24 * 60 * 60
LARGEST = 4 * 2**20
"""Bytes of a file that are read after a command. Files of the declared trees are smaller."""

_DATE = re.compile(r"\{date:([^}]*)\}")

Files = Mapping[str, Any]


@dataclass(frozen=True)
class Entry:
    """One file, folder or symbolic link, as it was read."""

    kind: str
    """`file`, `dir`, `link`, or `other`, which nothing should be."""
    mode: str
    data: bytes = b""
    """The bytes of a file, or the target of a link."""
    inode: int = 0

    @property
    def same(self) -> tuple[str, str, bytes]:
        """The properties that a command must leave unchanged unless it was asked to change them."""
        return self.kind, "" if self.kind == "link" else self.mode, self.data


def dated(text: str) -> str:
    """Replace `{date:FORMAT}` in a text by today's date."""
    return _DATE.sub(lambda found: datetime.now(UTC).strftime(found[1]), text)


def make(root: Path, files: Files) -> None:
    """Write the declared files below `root`, which exists and is empty."""
    ages: list[tuple[Path, float]] = []
    for name, file in files.items():
        path = root / dated(name)
        file = {"text": file} if isinstance(file, str) else file
        if name.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            if "link" in file:
                path.symlink_to(file["link"])
                continue
            path.write_bytes(_data(file))
        path.chmod(int(file.get("mode", "755" if name.endswith("/") else "644"), 8))
        ages.append((path, time.time() - DAY * file.get("days", 1)))
    for path, written in ages:
        os.utime(path, (written, written))


def _data(file: Files) -> bytes:
    if "lines" in file:
        first, last = file["lines"]
        return "".join(f"line {number}\n" for number in range(first, last + 1)).encode()
    if "size" in file:
        return bytes(file["size"])
    if "gzip" in file:
        return gzip.compress(str(file["gzip"]).encode(), mtime=0)
    for kind in ("tar", "tgz", "zip"):
        if kind in file:
            return _packed(kind, file[kind])
    return dated(file["text"]).encode()


def _packed(kind: str, members: Mapping[str, str]) -> bytes:
    packed = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(packed, "w") as archive:
            for name, text in members.items():
                archive.writestr(zipfile.ZipInfo(name), text)
    else:
        with tarfile.open(fileobj=packed, mode="w:gz" if kind == "tgz" else "w") as tar:
            for name, text in members.items():
                info = tarfile.TarInfo(name)
                info.size, info.mtime = len(text.encode()), int(time.time() - DAY)
                tar.addfile(info, io.BytesIO(text.encode()))
    return packed.getvalue()


def read(root: Path) -> dict[str, Entry]:
    """Everything below `root`, by its path from there. Links are not followed, so nothing outside is read."""
    found: dict[str, Entry] = {}
    for folder, folders, names in os.walk(root, followlinks=False):
        for name in (*folders, *names):
            path = Path(folder, name)
            status = path.lstat()
            found[path.relative_to(root).as_posix()] = _entry(path, status)
    return found


def _entry(path: Path, status: os.stat_result) -> Entry:
    mode = f"{stat.S_IMODE(status.st_mode):o}"
    if stat.S_ISLNK(status.st_mode):
        return Entry("link", mode, os.readlink(path).encode(), status.st_ino)
    if stat.S_ISDIR(status.st_mode):
        return Entry("dir", mode, b"", status.st_ino)
    if not stat.S_ISREG(status.st_mode):
        return Entry("other", mode)
    try:
        with path.open("rb") as file:
            return Entry("file", mode, file.read(LARGEST), status.st_ino)
    except PermissionError:
        return Entry("file", mode, b"", status.st_ino)


def members(data: bytes) -> dict[str, bytes] | None:
    """The files in an archive, any tar or zip, by name without `./`, or None if it is not an archive."""
    try:
        if data.startswith(b"PK"):
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                return {name.removeprefix("./"): archive.read(name) for name in archive.namelist() if name[-1] != "/"}
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            files = [(info.name, tar.extractfile(info)) for info in tar if info.isfile()]
            return {name.removeprefix("./").lstrip("/"): file.read() for name, file in files if file is not None}
    except (tarfile.TarError, zipfile.BadZipFile, OSError, EOFError):
        return None
