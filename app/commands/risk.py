"""Risks of a shell command: things that cannot be undone, or that give away control."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from app.commands.script import Span


class Kind(StrEnum):
    DELETES = "deletes"
    OVERWRITES = "overwrites"
    REWRITES = "rewrites history"
    SHUTS_DOWN = "shuts down"
    RIGHTS = "changes rights"
    ROOT = "runs as root"
    BROAD = "too broad"
    """It leaves out a condition that the question sets."""
    UNSEEN = "runs unseen code"
    """It runs something downloaded or decoded just before, which nobody has read."""
    LEAKS = "leaks secrets"
    UNKNOWN = "unknown program"
    """Neither this device nor a page knows the program: its name may be invented."""
    UNREADABLE = "unreadable"
    """The text does not parse as shell. Nothing is known about what it does."""


class Severity(StrEnum):
    """How severe it can be. `danger`: the system, all of somebody's files or a whole disk."""

    NOTICE = "notice"
    WARNING = "warning"
    DANGER = "danger"

    @property
    def rank(self) -> int:
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True)
class Risk:
    """One thing that a command would do."""

    kind: Kind
    severity: Severity
    words: tuple[str, ...]
    """The objects of the action: files, branches, programs; empty if none are named."""
    sentence: str
    """What it would do, as a phrase after "this command": "deletes `build` and everything in it"."""
    span: Span
    """The span of the command in the text."""
