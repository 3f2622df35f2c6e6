"""Reads the conversations of `oterm` from its SQLite file `store.db`, as versions up to 0.26 write it.

The file has neither dates nor branches. Every message gets the time of the file; an image becomes a remark.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator

from app.archive.foreign import ROLES, ForeignConversation, ForeignMessage, name_of, text_row, time_of

SOURCE = "oterm"


def is_oterm(tables: set[str]) -> bool:
    return {"chat", "message"} <= tables


def conversations(database: sqlite3.Connection, written: float) -> Iterator[ForeignConversation]:
    """Yields the conversations, oldest first. `written`: the time of the file in seconds since 1970.

    Raises `sqlite3.Error`.
    """
    database.row_factory = text_row
    for chat in database.execute("SELECT * FROM chat ORDER BY id").fetchall():
        left_out: Counter[str] = Counter()
        rows = database.execute("SELECT * FROM message WHERE chat_id = ? ORDER BY id", (chat["id"],)).fetchall()
        told = _field(chat, "system")
        nodes = [ForeignMessage("system", None, "system" if told else None, told)]
        for row in rows:
            stats: dict[str, float | int | str | None] = {"model": name_of(chat["model"])}
            role = ROLES.get(row["author"]) if row["text"] or _field(row, "images") else None
            nodes.append(ForeignMessage(str(row["id"]), nodes[-1].key, role, _text(row, left_out), None, stats))
        first = next((node.text for node in nodes if node.role == "user"), "")
        # Each file counts from 1, so the first question is part of the key.
        key, title = f"{chat['id']} {first}", chat["name"] or first[:120]
        yield ForeignConversation(SOURCE, key, title, nodes, None, created=time_of(written), left_out=left_out)


def _text(row: sqlite3.Row, left_out: Counter[str]) -> str:
    try:
        pictures = json.loads(_field(row, "images") or "[]")
    except ValueError:
        pictures = []
    count = len(pictures) if isinstance(pictures, list) else 0
    if count:
        left_out["attachments (picture)"] += count
    return "\n\n".join([part for part in (row["text"],) if part] + ["[picture: not in the import]"] * count)


def _field(row: sqlite3.Row, name: str) -> str:
    """The text of a column; empty if the file is too old to have that column."""
    columns = row.keys()
    return (row[name] or "") if name in columns else ""
