"""The conversations of `oterm`: its SQLite file `store.db`, as versions up to 0.26 write it.

It keeps neither dates nor branches. All is dated with the file's own time; pictures become a remark.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator

from app.archive.foreign import Foreign, Node, name_of, time_of
from storage import Role

SOURCE = "oterm"
ROLES: dict[str, Role] = {"system": "system", "user": "user", "assistant": "assistant"}


def is_oterm(tables: set[str]) -> bool:
    return {"chat", "message"} <= tables


def conversations(database: sqlite3.Connection, written: float) -> Iterator[Foreign]:
    """The oldest first; `written`: when the file was, in seconds since 1970. Raises `sqlite3.Error`."""
    database.row_factory = sqlite3.Row
    for chat in database.execute("SELECT * FROM chat ORDER BY id").fetchall():
        left_out: Counter[str] = Counter()
        rows = database.execute("SELECT * FROM message WHERE chat_id = ? ORDER BY id", (chat["id"],)).fetchall()
        told = _field(chat, "system")
        nodes = [Node("system", None, "system" if told else None, told)]
        for row in rows:
            stats: dict[str, float | int | str | None] = {"model": name_of(chat["model"])}
            role = ROLES.get(row["author"]) if row["text"] or _field(row, "images") else None
            nodes.append(Node(str(row["id"]), nodes[-1].key, role, _text(row, left_out), None, stats))
        first = next((node.text for node in nodes if node.role == "user"), "")
        # Numbers begin again in each file; what was asked first tells two of them apart.
        key, title = f"{chat['id']} {first}", chat["name"] or first[:120]
        yield Foreign(SOURCE, key, title, nodes, None, created=time_of(written), left_out=left_out)


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
    """Of a column that older versions do not have."""
    columns = row.keys()
    return (row[name] or "") if name in columns else ""
