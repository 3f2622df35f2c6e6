"""What can be completed at the cursor of a text: providers, one for each kind of thing. The one for `@path` is here."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from app.attachments.folders import SKIPPED
from app.attachments.mentions import located
from app.sanitise import sanitise


class Candidate(NamedTuple):
    text: str
    """Replaces what was typed."""
    label: str
    """What the person reads."""
    help: str = ""


class Completion(NamedTuple):
    """Candidates to replace `text[start:end]`, which is within the cursor's line."""

    start: int
    end: int
    candidates: tuple[Candidate, ...]
    eager: bool = False
    """Whether the first candidate is preselected, so that Enter takes it."""


Provider = Callable[[str, int], Completion | None]
"""Takes a text and the cursor's offset in it, in characters, and returns what can be completed there. It must be fast,
because it is called at each key."""


MOST = 50
"""Maximum number of paths offered."""
MOST_READ = 5000
"""Most entries of a folder that are read: more would delay every keystroke."""
TYPED = re.compile(r"(?:^|(?<=[\s(]))@((?:\\ |[^\s@])*)\Z")
"""An `@` at the start of a word, and what was typed after it."""


def completion_of_paths(folder: Path) -> Provider:
    """Completes `@path`, seen from a folder."""

    def complete(text: str, cursor: int) -> Completion | None:
        typed = TYPED.search(text[:cursor])
        if typed is None:
            return None
        found = _paths(typed[1], folder)
        offered = (Candidate(one.replace(" ", "\\ "), one) for one in found)
        return Completion(typed.start(1), cursor, tuple(offered))

    return complete


def _paths(text_after_at: str, cwd: Path) -> list[str]:
    """The paths that begin as typed: folders, which end in `/`, before files.

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
    return [path for _, _, path in sorted(found)[:MOST]]
