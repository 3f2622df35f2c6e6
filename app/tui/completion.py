"""What can be completed at the cursor of a text: providers, one for each kind of thing. The one for `@path` is here."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from app.attachments.paths import candidates


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

    def is_complete(self, text: str, chosen: int) -> bool:
        """Whether the text already is the chosen candidate."""
        return self.candidates[chosen].text.rstrip() == text[self.start : self.end]


Provider = Callable[[str, int], Completion | None]
"""Takes a text and the cursor's offset in it, in characters, and returns what can be completed there. It must be fast,
because it is called at each key."""


MOST = 50
"""Maximum number of paths offered."""
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
