"""Measures how much dimmed text was withdrawn: one definition for the panel and for the benchmarks.

Drafted text is dimmed until a verdict decides. A dimmed character is *confirmed* if the verified text has the same
character in the same place, and *withdrawn* if it leaves the screen. Text that is never decided, as in an answer
written offline, is neither. Characters are counted, because a reader sees them and the events of every mode contain
them. Drafted tokens that are never shown, in other branches of a tree, do not count.

The decision needs all events of an answer. `Retracted` alone does not show what is removed: the text that follows may
begin with the same words, which then never left the screen.
"""

from __future__ import annotations

from dataclasses import dataclass
from os.path import commonprefix

from app.events import Done, Drafted, Event, Failed, Retracted, Started, Verified


@dataclass
class DimmedText:
    """Counts dimmed characters over the events of one answer, or of several answers in turn.

    >>> dimmed = DimmedText()
    >>> for event in (Drafted("ls -la", 3), Retracted(3), Verified("ls -l", 3, 2)): dimmed.apply(event)
    >>> dimmed.confirmed, dimmed.withdrawn
    (5, 1)
    """

    shown: int = 0
    confirmed: int = 0
    withdrawn: int = 0
    _dimmed: str = ""
    _retracted: str = ""
    """Text that the last event withdrew. The next event shows whether the same text replaces it."""

    @property
    def share(self) -> float | None:
        """Withdrawn characters as a share of the decided ones, or None before any is decided."""
        decided = self.confirmed + self.withdrawn
        return self.withdrawn / decided if decided else None

    def apply(self, event: Event) -> None:
        if isinstance(event, Drafted):
            stays = len(commonprefix((self._retracted, event.text)))
            self.withdrawn += len(self._retracted) - stays
            self.shown += len(event.text) - stays
            self._dimmed, self._retracted = self._dimmed + event.text, ""
        elif isinstance(event, Verified):
            self._confirm(event.text)
        elif isinstance(event, Retracted):
            self.withdrawn += len(self._retracted)
            self._dimmed, self._retracted = "", self._dimmed
        elif isinstance(event, Started | Done | Failed):
            self.withdrawn += len(self._retracted)
            if isinstance(event, Done) and all(event.provenance):
                self.withdrawn += len(self._dimmed)  # Guesses of a round without a verdict.
            self._dimmed = self._retracted = ""

    def count(self, other: DimmedText, event: Event) -> None:
        """Apply an event of one of several simultaneous answers to its `other`, and count here what that changes."""
        before = other.shown, other.confirmed, other.withdrawn
        other.apply(event)
        self.shown += other.shown - before[0]
        self.confirmed += other.confirmed - before[1]
        self.withdrawn += other.withdrawn - before[2]

    def _confirm(self, text: str) -> None:
        before = self._retracted or self._dimmed
        same = len(commonprefix((before, text)))
        self.confirmed += same
        rest = before[same:]
        if same < len(text):
            self.withdrawn += len(rest)
            rest = ""
        if self._retracted:
            self._retracted = rest
        else:
            self._dimmed = rest
