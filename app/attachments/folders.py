"""Which files of a folder go with a question: those that git knows or would take, else those that are not hidden."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from app.attachments.limits import MOST_FILES

SKIPPED = frozenset({
    "node_modules", "__pycache__", ".git", ".hg", ".svn", ".venv", "venv", ".tox", ".mypy_cache", ".ruff_cache",
    ".pytest_cache", "site-packages",
})  # fmt: skip
"""Folders that programs fill. Nobody means them who names the folder around them."""
MOST_LOOKED_AT = 20_000
"""Entries that are looked at. Somebody may name their whole disk."""
MOST_SECONDS = 5.0
GIT = ["git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "ls-files", "-z"]
"""No program that a repository's own configuration names is run."""


class FolderTooLarge(Exception):
    """There is more in the folder than can be looked at, or sent. The text says so."""


def files_in(folder: Path) -> list[Path]:
    """The regular files below a folder, in order of their names, without links. Raises `FolderTooLarge`, `OSError`."""
    listed = _known_to_git(folder)
    if listed is None:
        listed = sorted(_walked(folder))
    return [path for path in listed if path.is_file() and not path.is_symlink() and _inside(path, folder)]


def _inside(path: Path, folder: Path) -> bool:
    """No folder on the way to the file is a link, which may lead anywhere."""
    between = path.relative_to(folder).parts[:-1]
    return not any(folder.joinpath(*between[: count + 1]).is_symlink() for count in range(len(between)))


def _known_to_git(folder: Path) -> list[Path] | None:
    """What git keeps here, and what is new and not ignored; None if git does not keep this folder."""
    command = [*GIT, "--cached", "--others", "--exclude-standard"]
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, timeout=MOST_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode:
        return None
    names = [os.fsdecode(name) for name in done.stdout.split(b"\0") if name]
    if not names and any(folder.iterdir()):
        return None  # Git ignores the folder, and the person has named it all the same.
    if len(names) > MOST_LOOKED_AT:
        raise FolderTooLarge(f"has more than {MOST_LOOKED_AT:,} files; name a smaller folder")
    kept = [folder / name for name in sorted(set(names))]
    return [path for path in kept if not SKIPPED.intersection(path.relative_to(folder).parts)]


def _walked(folder: Path) -> Iterator[Path]:
    until, looked_at = time.monotonic() + MOST_SECONDS, 0
    for above, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in SKIPPED)
        looked_at += len(folders) + len(files)
        if looked_at > MOST_LOOKED_AT or time.monotonic() > until:
            raise FolderTooLarge(f"has more files than can be looked at; name a folder with at most {MOST_FILES}")
        yield from (Path(above) / name for name in files if not name.startswith(".") or is_dotfile_secret(name))


def is_dotfile_secret(name: str) -> bool:
    """Hidden names that hold secrets are listed, so that the person hears that they are left out."""
    return name == ".env" or name.startswith(".env.")
