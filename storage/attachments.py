"""Attachments of a question: text files and images, with the content they had when they were attached.

A row belongs to a message, or to a queued prompt until that is sent. It never changes, and is deleted with its owner.
The files are not read from the disk again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from storage.sqlite import Sqlite
from storage.words import well_formed

TEXT = "text/plain"
"""Media type of text, which is stored as UTF-8."""


@dataclass(frozen=True)
class Attachment:
    """One attached file."""

    name: str
    """The path as the person typed it, such as `src/start.py`. It may hold any characters."""
    media_type: str
    """`text/…` for text in UTF-8, `image/…` for an image."""
    data: bytes

    @property
    def is_text(self) -> bool:
        return self.media_type.startswith("text/")

    @property
    def text(self) -> str:
        """The content of a text file; empty for anything else."""
        return self.data.decode("utf-8", "replace") if self.is_text else ""


Owner = Literal["message_id", "queue_id"]
"""The column that names the owner of an attachment."""


def named_well(attachment: Attachment) -> Attachment:
    """The attachment with a name that UTF-8 can encode: a file name on disk may be any bytes."""
    return replace(attachment, name=well_formed(attachment.name))


def insert_attachments(sql: Sqlite, owner: Owner, owner_id: str, attachments: Sequence[Attachment]) -> None:
    """Adds the attachments of a message or of a prompt in the queue, in their order."""
    sql.executemany(
        f"INSERT INTO attachments ({owner}, place, name, media_type, data) VALUES (?, ?, ?, ?, ?)",
        (
            (owner_id, place, one.name, one.media_type, one.data)
            for place, one in enumerate(map(named_well, attachments))
        ),
    )


def attachments_of(sql: Sqlite, owner: Owner, ids: Iterable[str]) -> Mapping[str, tuple[Attachment, ...]]:
    """The attachments of these owners, by id; owners without any are left out."""
    rows = sql.execute(
        f"""
        SELECT {owner}, name, media_type, data FROM attachments
        WHERE {owner} IN (SELECT value FROM json_each(?)) ORDER BY {owner}, place
        """,
        (json.dumps(list(ids)),),
    )
    found: dict[str, tuple[Attachment, ...]] = {}
    for owner_id, name, media_type, data in rows:
        found[owner_id] = (*found.get(owner_id, ()), Attachment(name, media_type, bytes(data)))
    return found


def move_attachments(sql: Sqlite, source: Owner, source_id: str, target: Owner, target_id: str) -> None:
    """Moves attachments to another owner: a prompt has become a question, or a question a prompt."""
    sql.execute(f"UPDATE attachments SET {source} = NULL, {target} = ? WHERE {source} = ?", (target_id, source_id))
