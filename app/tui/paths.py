"""Completion of `@path`: the names of a folder, read at the moment they are asked for."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

from app.tui.completion import Candidate, Completion, Provider

READ = 2000
"""Names of a folder that are looked at, at most: 2 ms on a local disk."""
MOST = 50
"""Paths that are offered at most."""
TYPED = re.compile(r"(?:^|(?<=[\s(]))@((?:\\ |[^\s@])*)\Z")
"""An `@` at the start of a word, and what was typed after it."""

Candidates = Callable[[str, Path, int], Sequence[str]]
"""From what was typed after the `@`, a folder, and a number to so many paths at most."""


def paths(typed: str, folder: Path, most: int = MOST) -> list[str]:
    """Paths that begin so, seen from `folder`; folders end with a slash. Hidden ones only where a dot was typed.

    A space has a backslash before it in `typed`, and none in what is returned. Names with control characters or other
    white space are left out: they cannot be written after an `@`.
    """
    typed = typed.replace("\\ ", " ")
    parent, _, name = typed.rpartition("/")
    lead = typed[: len(typed) - len(name)]
    try:
        place = folder / Path(lead).expanduser() if lead else folder
        with os.scandir(place) as entries:
            fitting = sorted(
                (not one.is_dir(), one.name)
                for one in islice(entries, READ)
                if one.name.startswith(name) and (name or not one.name.startswith(".")) and _writable(one.name)
            )
    except (OSError, RuntimeError, ValueError):  # No such folder, or no such home.
        return []
    return [f"{lead}{one}{'' if is_file else '/'}" for is_file, one in fitting[:most]]


def _writable(name: str) -> bool:
    return name.isprintable() and "@" not in name and not any(one.isspace() and one != " " for one in name)


def completion_of_paths(folder: Path, candidates: Candidates = paths) -> Provider:
    """Completes `@path`, seen from a folder."""

    def complete(text: str, cursor: int) -> Completion | None:
        typed = TYPED.search(text[:cursor])
        if typed is None:
            return None
        found = candidates(typed[1], folder, MOST)
        offered = (Candidate(one.replace(" ", "\\ "), one) for one in found)
        return Completion(typed.start(1), cursor, tuple(offered))

    return complete
