"""Tool calls of answers. A call is stored before it runs, and never run again automatically.

`running` is stored before the tool is asked. So a call that a crash leaves in that state may have been carried out, or
may not: it becomes `unknown`, and stays that until the person decides.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Literal

from storage.database import Database
from storage.errors import NotFound
from storage.sqlite import Sqlite
from storage.words import well_formed

CallState = Literal["asked", "running", "done", "failed", "refused", "unknown"]
"""asked: by the model, and not begun. failed: the tool, or the call itself, says so. refused: by the person, or because
of a limit. unknown: it may have been carried out."""
ENDED = ("done", "failed", "refused")
"""States in which a call never changes again."""
COLUMNS = "place, turn, at, call_id, server, tool, arguments, state, result, asked, ended"
"""The columns of a `Call`, in its order."""


@dataclass(frozen=True)
class Call:
    """One call that a model asked for, in its answer."""

    place: int
    """Number of the call in its answer, from 0."""
    turn: int
    """Number of the request that brought it, from 0. Calls of one turn were asked together."""
    at: int
    """Characters of the answer before it."""
    call_id: str
    """The server's name for it."""
    server: str
    """The person's name for the tool's server; empty if the model named no tool that was offered."""
    tool: str
    arguments: str
    """JSON as the model wrote it. Neither checked nor cleaned."""
    state: CallState = "asked"
    result: str = ""
    """What the model reads of it."""
    asked: str = ""
    """UTC, ISO 8601."""
    ended: str = ""
    """UTC, ISO 8601; empty until then."""

    @property
    def over(self) -> bool:
        return self.state in ENDED


class Calls:
    """The calls of answers that are being written. `Message.calls` has those of stored ones."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, message_id: str, calls: Sequence[Call]) -> None:
        with self._database.write() as sql:
            insert_calls(sql, message_id, calls)

    def unsure(self, conversation_id: str) -> list[Call]:
        """The calls of all branches whose result is unknown, or not known yet. What is in the bin may have run too."""
        with self._database.read() as sql:
            rows = sql.execute(
                f"""
                SELECT {COLUMNS} FROM calls JOIN messages ON messages.id = message_id
                WHERE conversation_id = ? AND state IN ('running', 'unknown') ORDER BY calls.key
                """,
                (conversation_id,),
            )
            return [Call(*row) for row in rows]

    def set(self, message_id: str, call: Call) -> None:
        """Stores the state, the result and the end of a call. Raises `NotFound`."""
        with self._database.write() as sql:
            changed = sql.execute(
                "UPDATE calls SET state = ?, result = ?, ended = ? WHERE message_id = ? AND place = ?",
                (call.state, well_formed(call.result), call.ended, message_id, call.place),
            )
            if not changed.rowcount:
                raise NotFound("The answer with this tool call was deleted, so the call is not made.")


def insert_calls(sql: Sqlite, message_id: str, calls: Sequence[Call]) -> None:
    """Adds the calls of a message inside the caller's transaction."""
    sql.executemany(
        f"INSERT INTO calls (message_id, {COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            (message_id, *(well_formed(value) if isinstance(value, str) else value for value in astuple(one)))
            for one in calls
        ),
    )


def calls_of(sql: Sqlite, ids: Iterable[str]) -> Mapping[str, tuple[Call, ...]]:
    """The calls of these messages, by message; messages without any are left out."""
    rows = sql.execute(
        f"""
        SELECT message_id, {COLUMNS} FROM calls
        WHERE message_id IN (SELECT value FROM json_each(?)) ORDER BY message_id, place
        """,
        (json.dumps(list(ids)),),
    )
    found: dict[str, tuple[Call, ...]] = {}
    for message_id, *fields in rows:
        found[message_id] = (*found.get(message_id, ()), Call(*fields))
    return found


def leave_unknown(sql: Sqlite, message_id: str) -> None:
    """Marks the calls of an answer that were running when its program died, or when it was copied."""
    sql.execute("UPDATE calls SET state = 'unknown' WHERE message_id = ? AND state = 'running'", (message_id,))
