"""What a shell command may do that cannot be undone, or that gives away control: one `Risk` for each such thing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from app.commands.script import Span


class Kind(StrEnum):
    """What a risky command does."""

    DELETES = "deletes"
    OVERWRITES = "overwrites"
    REWRITES = "rewrites history"
    SHUTS_DOWN = "shuts down"
    RIGHTS = "changes rights"
    ROOT = "runs as root"
    UNSEEN = "runs unseen code"
    """It runs what was downloaded or decoded a moment before, so nobody has read it."""
    LEAKS = "leaks secrets"
    UNKNOWN = "unknown program"
    """Neither this device nor a page knows the program: its name may be made up."""
    UNREADABLE = "unreadable"
    """The text does not parse as shell. Nothing is known about what it does."""


class Severity(StrEnum):
    """How bad it can be. `danger`: the system, all of somebody's files or a whole disk."""

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
    """What it would do it to: files, branches, programs. Empty where nothing is named."""
    sentence: str
    """What it would do, in words that follow "this command": "deletes `build` and everything in it"."""
    span: Span
    """The place of the command in the text."""
