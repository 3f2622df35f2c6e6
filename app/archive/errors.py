"""What can go wrong with a person's files.

ArchiveError
├── Unreadable      the file cannot be read, or is none that can be imported
├── Unsuitable      one conversation in it cannot be imported; the others can
└── Unwritable      the export could not be written; nothing was changed
"""

from __future__ import annotations


class ArchiveError(Exception):
    """The text says what failed and what to do next."""


class Unreadable(ArchiveError):
    pass


class Unsuitable(ArchiveError):
    pass


class Unwritable(ArchiveError):
    pass
