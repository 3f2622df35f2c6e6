"""What can go wrong with a person's files.

ArchiveError
├── Unreadable      the file cannot be read, or is none that can be imported
├── Unsuitable      one conversation in it cannot be imported; the others can
└── Unwritable      the export could not be written; nothing was changed
"""

from __future__ import annotations

KINDS = (
    "Outrider's JSON, a ChatGPT export (.zip or .json), the logs.db of llm, the store.db of oterm, "
    "or a database of Outrider"
)
"""What can be imported, in words."""


class ArchiveError(Exception):
    """The text says what failed and what to do next."""


class Unreadable(ArchiveError):
    pass


class Unsuitable(ArchiveError):
    pass


class Unwritable(ArchiveError):
    pass
