"""Reads the conversations of Simon Willison's `llm` from its SQLite file `logs.db`, versions 0.4 (2023) to 0.36.

Older versions keep one row for each prompt and its response. Newer ones keep a tree of messages, and threads point into
it. An upgraded file has both, and its threads repeat the older rows. Because ids are computed from the text, each
message is stored once. Text is imported together with its fragments. Tool calls, tool outputs and thoughts are left
out, and attachments become a remark.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from app.archive.foreign import ROLES, ForeignConversation, ForeignMessage, content_id, name_of, text_row, time_of

SOURCE = "llm"
LONGEST_TITLE = 120


def is_llm(tables: set[str]) -> bool:
    return "conversations" in tables and ("responses" in tables or {"threads", "turns", "parts"} <= tables)


def conversations(database: sqlite3.Connection) -> Iterator[ForeignConversation]:
    """Yields the conversations, oldest first. Raises `sqlite3.Error` if the file is damaged."""
    database.row_factory = text_row
    logs = _Logs(database)
    keys = dict.fromkeys([*logs.responses, *logs.threads])
    for key in sorted(keys, key=logs.begun):
        yield logs.conversation(key)


class _Logs:
    """The tables of the file, which depend on its version."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        self.responses = self._grouped("responses", "conversation_id", "id")
        """Rows by conversation. A row without one is a separate conversation."""
        self.turns = self._grouped("turns", "thread_id", "datetime_utc, id")
        self.threads = {row["id"]: row for row in self._rows("threads", "id")}
        self._names = {row["id"]: row["name"] for row in self._rows("conversations", "id")}

    def begun(self, key: str) -> str:
        rows = [*self.responses.get(key, ()), *self.turns.get(key, ())]
        return min((time_of(row["datetime_utc"]) or "" for row in rows), default="")

    def conversation(self, key: str) -> ForeignConversation:
        left_out: Counter[str] = Counter()
        said = _Nodes()
        tip = None
        for node in self._old(key, left_out):
            tip = said.add(tip, node)
        places: dict[str, str | None] = {}
        for turn in self.turns.get(key, ()):
            tip = self._follow(turn, said, places, left_out) or tip
        nodes = list(said.by_key.values())
        name = self._names.get(key) or (self.threads[key]["name"] if key in self.threads else None)
        title = name or next((node.text for node in nodes if node.role == "user"), "")
        return ForeignConversation(SOURCE, key, title[:LONGEST_TITLE], nodes, tip, left_out=left_out)

    # ---- rows of prompts and responses -------------------------------------------------------------------------------

    def _old(self, key: str, left_out: Counter[str]) -> Iterator[ForeignMessage]:
        for row in self.responses.get(key, ()):
            created = time_of(row["datetime_utc"])
            yield ForeignMessage("", None, "system", self._with_fragments(row, "system"), created)
            asked = [self._with_fragments(row, "prompt"), *self._attached(row, left_out)]
            yield ForeignMessage("", None, "user", "\n\n".join(part for part in asked if part), created)
            yield ForeignMessage("", None, "assistant", row["response"] or "", created, _stats(row))

    def _with_fragments(self, row: sqlite3.Row, kind: str) -> str:
        table = f"{kind}_fragments"
        fragments: list[Any] = []
        if table in self._tables:
            fragments = self._database.execute(
                f"SELECT content FROM fragments JOIN {table} ON fragment_id = fragments.id "
                f'WHERE response_id = ? ORDER BY "order"',
                (row["id"],),
            ).fetchall()
        return "\n".join([content for (content,) in fragments] + ([row[kind]] if row[kind] else []))

    def _attached(self, row: sqlite3.Row, left_out: Counter[str]) -> list[str]:
        if "prompt_attachments" not in self._tables:
            return []
        attached = self._database.execute(
            "SELECT attachment_id FROM prompt_attachments WHERE response_id = ?", (row["id"],)
        )
        return [self._remark(identifier, left_out) for (identifier,) in attached.fetchall()]

    # ---- trees of messages -------------------------------------------------------------------------------------------

    def _follow(
        self, turn: sqlite3.Row, said: _Nodes, places: dict[str, str | None], left_out: Counter[str]
    ) -> str | None:
        """Adds the branch that ends with a turn, and returns the key of its last node.

        `places` maps each message that was read to its node, or to the last node above it.
        """
        rows: list[sqlite3.Row] = []
        at = tip = turn["tip_message_hash"]
        while at is not None and at not in places and (row := self._message(at)) is not None:
            rows.append(row)
            places[at] = None  # Ends the loop if a file's parents form a cycle.
            at = row["parent_hash"]
        created = time_of(turn["datetime_utc"])
        key = places.get(at)
        for row in reversed(rows):
            text, role = self._said(row["hash"], left_out), ROLES.get(row["role"])
            if role is None and text:
                left_out["tool outputs"] += 1
            elif text:
                stats = _stats(turn) if row["hash"] == tip else {}
                key = said.add(key, ForeignMessage("", None, role, text, created, stats))
            places[row["hash"]] = key
        return places.get(tip)

    def _message(self, identifier: str) -> sqlite3.Row | None:
        found = self._database.execute("SELECT * FROM messages WHERE hash = ?", (identifier,)).fetchone()
        assert found is None or isinstance(found, sqlite3.Row)
        return found

    def _said(self, message: str, left_out: Counter[str]) -> str:
        parts: list[str] = []
        rows = self._database.execute("SELECT * FROM parts WHERE message_hash = ? ORDER BY position", (message,))
        for row in rows.fetchall():
            payload = _decoded(row["payload"])
            if row["type"] == "text":
                parts.append(row["text"] or self._borrowed(payload))
            elif row["type"] == "attachment":
                about = payload.get("attachment")
                parts.append(self._remark(about.get("id") if isinstance(about, dict) else None, left_out))
            else:
                left_out[{"reasoning": "thoughts", "tool_call": "tool calls"}.get(row["type"], "tool outputs")] += 1
        return "\n\n".join(part for part in parts if part)

    def _borrowed(self, payload: Mapping[str, Any]) -> str:
        """A text that consists of fragments."""
        said = []
        pieces = payload.get("text_ref") or [{"literal": payload.get("text") or ""}]
        for piece in filter(lambda piece: isinstance(piece, dict), pieces if isinstance(pieces, list) else []):
            if "literal" in piece:
                said.append(str(piece["literal"]))
            else:
                fragment = str(piece.get("fragment"))
                found = self._database.execute("SELECT content FROM fragments WHERE id = ?", (fragment,))
                said.append(str((found.fetchone() or ("",))[0]))
        return "".join(said)

    # ---- both --------------------------------------------------------------------------------------------------------

    def _remark(self, attachment: str | None, left_out: Counter[str]) -> str:
        found = self._database.execute("SELECT type FROM attachments WHERE id = ?", (attachment,)).fetchone()
        kind = name_of(found["type"]) if found is not None else None
        left_out[f"attachments ({kind or 'unknown'})"] += 1
        return f"[attachment {kind or ''}: not in the import]".replace(" :", ":")

    def _rows(self, table: str, order: str) -> Sequence[sqlite3.Row]:
        if table not in self._tables:
            return []
        return self._database.execute(f"SELECT * FROM {table} ORDER BY {order}").fetchall()

    def _grouped(self, table: str, column: str, order: str) -> dict[str, list[sqlite3.Row]]:
        groups: dict[str, list[sqlite3.Row]] = {}
        for row in self._rows(table, order):
            groups.setdefault(row[column] or row["id"], []).append(row)
        return groups


class _Nodes:
    """The messages of one conversation.

    Keys are computed from a text and all texts before it, so duplicates coincide.
    """

    def __init__(self) -> None:
        self.by_key: dict[str, ForeignMessage] = {}
        self._system: dict[str | None, str] = {}
        """The system prompt in force at each node; `llm` repeats it with every question."""

    def add(self, parent: str | None, node: ForeignMessage) -> str | None:
        """Adds a node below `parent` and returns its key, or returns `parent` if the node adds nothing."""
        system = self._system.get(parent, "")
        if not node.text or (node.role == "system" and node.text == system):
            return parent
        key = content_id(parent or "", node.role or "", node.text)
        self.by_key.setdefault(key, replace(node, key=key, parent=parent))
        self._system[key] = node.text if node.role == "system" else system
        return key


def _stats(row: sqlite3.Row) -> dict[str, float | int | str | None]:
    columns = row.keys()
    stats: dict[str, float | int | str | None] = {"model": name_of(row["model"])}
    for name in ("input_tokens", "output_tokens"):
        if name in columns and isinstance(row[name], int):
            stats[name] = row[name]
    if isinstance(row["duration_ms"], int):
        stats["seconds"] = row["duration_ms"] / 1000
    return stats


def _decoded(payload: str | None) -> Mapping[str, Any]:
    try:
        decoded = json.loads(payload) if payload else {}
    except (ValueError, RecursionError):  # One part is damaged; the others can be read.
        decoded = {}
    return decoded if isinstance(decoded, dict) else {}
