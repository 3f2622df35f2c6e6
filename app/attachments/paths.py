"""Completes paths after an `@` in a prompt while a person types."""

from __future__ import annotations

import os
from pathlib import Path

from app.attachments.folders import SKIPPED
from app.attachments.mentions import located
from app.sanitise import sanitise

MOST_READ = 5000
"""Most entries of a folder that are read: more would delay every keystroke."""


def candidates(text_after_at: str, cwd: Path, most: int) -> list[str]:
    """At most `most` paths that begin as typed: folders, which end in `/`, before files.

    Only the folder named so far is read. Hidden names are offered only after a dot was typed. Names that cannot be
    typed are left out: those with control characters or white space other than spaces.
    """
    typed = text_after_at.lstrip("\"'").replace("\\ ", " ")
    above, slash, begun = typed.rpartition("/")
    folder = located(above or "/" if slash else ".", cwd)
    found: list[tuple[bool, str, str]] = []
    try:
        with os.scandir(folder) as entries:
            for count, entry in enumerate(entries):
                if count == MOST_READ:
                    break
                name = entry.name
                if not name.lower().startswith(begun.lower()) or sanitise(name) != name or not name.isprintable():
                    continue
                if (name.startswith(".") and not begun.startswith(".")) or (name in SKIPPED and name != begun):
                    continue
                is_folder = entry.is_dir()
                found.append((not is_folder, name.lower(), f"{above}{slash}{name}{'/' if is_folder else ''}"))
    except (OSError, ValueError):
        return []
    return [path for _, _, path in sorted(found)[:most]]
