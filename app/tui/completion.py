"""What can be completed at the cursor of a text. A provider knows one kind of thing: commands, or paths."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Candidate(NamedTuple):
    """One way to complete."""

    text: str
    """Replaces what was typed."""
    label: str
    """What the person reads."""
    help: str = ""


class Completion(NamedTuple):
    """What may stand in place of `text[start:end]`, which lies in the line of the cursor."""

    start: int
    end: int
    candidates: tuple[Candidate, ...]
    eager: bool = False
    """The first candidate is chosen from the start, so that Enter takes it."""

    def is_complete(self, text: str, chosen: int) -> bool:
        """Whether the chosen candidate stands there already."""
        return self.candidates[chosen].text.rstrip() == text[self.start : self.end]


Provider = Callable[[str, int], Completion | None]
"""From a text and the cursor's place in it, in characters, to what can be completed there. It must be fast: it is
asked at each key."""
