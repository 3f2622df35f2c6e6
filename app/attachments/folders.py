"""Which files of a folder are attached: those that git tracks or would add, or else those that are not hidden."""

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
"""Folders that programs fill. A person who names the enclosing folder does not mean them."""
MOST_LOOKED_AT = 20_000
"""Most entries that are examined. Somebody may name their whole disk."""
MOST_SECONDS = 5.0
GIT = ["git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "ls-files", "-z"]
"""The command that lists files without running programs named in a repository's own configuration."""


class FolderTooLarge(Exception):
    """The folder has more than can be examined or sent. The text says so."""


def files_in(folder: Path) -> list[Path]:
    """The regular files below a folder, in order of their names, without links. Raises `FolderTooLarge`, `OSError`."""
    listed = _known_to_git(folder)
    if listed is None:
        listed = sorted(_walked(folder))
    return [path for path in listed if path.is_file() and not path.is_symlink() and _inside(path, folder)]


def _inside(path: Path, folder: Path) -> bool:
    """Whether no folder on the way to the file is a link, which may lead anywhere."""
    between = path.relative_to(folder).parts[:-1]
    return not any(folder.joinpath(*between[: count + 1]).is_symlink() for count in range(len(between)))


def _known_to_git(folder: Path) -> list[Path] | None:
    """The files here that git tracks, and new ones that are not ignored; None if this folder is not in a repository."""
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
        return None  # Git ignores the folder, but the person named it all the same.
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
            raise FolderTooLarge(f"has too many files; name a folder with at most {MOST_FILES}")
        for name in files:
            # A hidden file that may hold secrets is listed, so that the person learns that it is left out.
            if not name.startswith(".") or name == ".env" or name.startswith(".env."):
                yield Path(above) / name
