"""The errors of export and import.

ArchiveError
├── Unreadable      the file cannot be read, or is of a kind that cannot be imported
├── Unsuitable      one conversation in the file cannot be imported; the others can
└── Unwritable      the export could not be written; nothing was changed
"""

from __future__ import annotations

KINDS = (
    "Outrider's JSON, an export from ChatGPT or Claude (.zip, its folder, or conversations.json), the logs.db of llm, "
    "the store.db of oterm, or a database of Outrider"
)
"""The kinds of files that can be imported, for messages to the person."""


class ArchiveError(Exception):
    """An export or import failed; the text says what failed and what to do next."""


class Unreadable(ArchiveError):
    pass


class Unsuitable(ArchiveError):
    pass


class Unwritable(ArchiveError):
    pass
