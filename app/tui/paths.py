"""Completion of `@path`."""

from __future__ import annotations

import re
from pathlib import Path

from app.attachments.paths import candidates
from app.tui.completion import Candidate, Completion, Provider

MOST = 50
"""Paths that are offered at most."""
TYPED = re.compile(r"(?:^|(?<=[\s(]))@((?:\\ |[^\s@])*)\Z")
"""An `@` at the start of a word, and what was typed after it."""


def completion_of_paths(folder: Path) -> Provider:
    """Completes `@path`, seen from a folder."""

    def complete(text: str, cursor: int) -> Completion | None:
        typed = TYPED.search(text[:cursor])
        if typed is None:
            return None
        found = candidates(typed[1], folder, MOST)
        offered = (Candidate(one.replace(" ", "\\ "), one) for one in found)
        return Completion(typed.start(1), cursor, tuple(offered))

    return complete
