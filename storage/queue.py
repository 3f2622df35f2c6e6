"""The queue for the target: prompts that were not sent yet, and answers that it is to verify.

Nothing here is lost or sent twice, even if the program dies. One transaction turns a prompt into a question with a
pending answer, and its row into that answer's. The row is deleted in the transaction that finishes the answer
(`Messages.finish`). An answer that a dead process left half-written stays here, to be verified.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from storage.attachments import Attachment, attachments_of, insert_attachments, move_attachments
from storage.database import Database
from storage.errors import NotFound
from storage.records import Message
from storage.rows import add_question, find_conversation, find_message, new_id, note_written, now
from storage.sqlite import Sqlite
from storage.words import well_formed

SELECT_QUEUED = """
    SELECT queue.id, queue.conversation_id, queue.message_id, coalesce(queue.text, question.text, '') AS text,
        queue.created, queue.key AS place
    FROM queue
    JOIN conversations ON conversations.id = queue.conversation_id
    LEFT JOIN messages AS answer ON answer.id = queue.message_id
    LEFT JOIN messages AS question ON question.id = answer.parent_id
    LEFT JOIN messages AS beside ON beside.id = queue.answer_id
"""
"""Includes what was deleted."""
IN_VIEW = "conversations.deleted IS NULL AND answer.deleted IS NULL"
"""SQL condition: not deleted. A restored entry waits again."""
WAITING = f"{IN_VIEW} AND answer.owner IS NULL AND beside.owner IS NULL"
"""SQL condition: not deleted, and no process is working on it."""
TIP_FINISHED = """
    NOT EXISTS (
        SELECT 1 FROM messages AS tip WHERE tip.id = conversations.tip_id AND tip.owner IS NOT NULL
    )
"""
"""SQL condition: no answer is being written at the end of the conversation."""


@dataclass(frozen=True)
class Queued:
    """A prompt for the target, or an answer that it is to verify."""

    id: str
    conversation_id: str
    message_id: str | None
    """The answer to be verified; None for a prompt, which follows the conversation's tip when it is sent."""
    text: str
    """The prompt, or the question of the answer."""
    created: str
    """UTC, ISO 8601."""
    place: int = field(default=0, compare=False)
    """Sort key across all conversations: the lowest place is sent first. The numbers have gaps."""
    attachments: tuple[Attachment, ...] = ()
    """Attachments of a prompt. Those of a question that was sent belong to its message."""

    @property
    def kind(self) -> Literal["ask", "verify"]:
        return "ask" if self.message_id is None else "verify"


class Queue:
    """Entries that wait for the target, in sending order."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def all(self) -> list[Queued]:
        """All waiting entries, in order, except those that are being answered now."""
        with self._database.read() as sql:
            return queued_from(sql, sql.query(f"{SELECT_QUEUED} WHERE {WAITING} ORDER BY queue.key"))

    def ready(self) -> list[Queued]:
        """The entries, in order, in whose conversation no answer is being written."""
        with self._database.read() as sql:
            return queued_from(sql, sql.query(f"{SELECT_QUEUED} WHERE {WAITING} AND {TIP_FINISHED} ORDER BY queue.key"))

    def add(self, conversation_id: str, text: str, attachments: Sequence[Attachment] = ()) -> Queued:
        """Adds a prompt and its attachments at the end. Raises `NotFound`."""
        with self._database.write() as sql:
            find_conversation(sql, conversation_id)
            queued = _insert(sql, conversation_id, text=well_formed(text))
            insert_attachments(sql, "queue_id", queued.id, attachments)
            return _entry(sql, queued.id)

    def add_verification(self, message_id: str, *, first: bool = False) -> Queued:
        """Adds an answer to verify at the end, unless it is queued already. Raises `NotFound`.

        `first`: before the other entries of its conversation, which were asked after it.
        """
        with self._database.write() as sql:
            message = find_message(sql, message_id)
            for queued in queued_from(sql, sql.query(f"{SELECT_QUEUED} WHERE queue.message_id = ?", (message_id,))):
                return queued
            queued = _insert(sql, message.conversation_id, message_id=message_id)
            return _before_others(sql, queued) if first else queued

    def edit(self, queued_id: str, text: str) -> None:
        """Replaces the text of a prompt that was not sent yet. Raises `NotFound`."""
        with self._database.write() as sql:
            if _entry(sql, queued_id).message_id is not None:
                raise NotFound(f"{queued_id} in the queue is not a prompt, or was sent already, and cannot be changed.")
            sql.execute("UPDATE queue SET text = ? WHERE id = ?", (well_formed(text), queued_id))

    def remove(self, queued_id: str) -> Queued:
        """Removes an entry and returns it. Raises `NotFound`.

        Its conversation is erased if it has no message and nothing else in the queue.
        """
        with self._database.write() as sql:
            queued = _entry(sql, queued_id)
            sql.execute("DELETE FROM queue WHERE id = ?", (queued_id,))
            sql.execute(
                """
                DELETE FROM conversations WHERE id = ?
                AND NOT EXISTS (SELECT 1 FROM messages WHERE conversation_id = conversations.id)
                AND NOT EXISTS (SELECT 1 FROM queue WHERE conversation_id = conversations.id)
                """,
                (queued.conversation_id,),
            )
            return queued

    def take(self, queued_id: str, *, leaves: bool = False) -> Message | None:
        """Stores a queued prompt as a question with a pending answer, which takes its place here and is returned.

        `leaves`: nothing takes its place, as if the question had been asked when it was queued. Returns None if the
        prompt is gone: another window may have taken or removed it.
        """
        with self._database.write() as sql:
            condition = f"{WAITING} AND {TIP_FINISHED} AND queue.id = ? AND queue.message_id IS NULL"
            row = next(sql.query(f"{SELECT_QUEUED} WHERE {condition}", (queued_id,)), None)
            if row is None:
                return None
            conversation = find_conversation(sql, row["conversation_id"])
            owner = self._database.owner.claim()
            asked, tip = row["created"] if leaves else None, conversation.tip_id
            answer = add_question(sql, conversation.id, row["text"], parent_id=tip, owner=owner, asked=asked)
            move_attachments(sql, "queue_id", queued_id, "message_id", str(answer.parent_id))
            if leaves:
                sql.execute("DELETE FROM queue WHERE id = ?", (queued_id,))
            else:
                sql.execute("UPDATE queue SET text = NULL, message_id = ? WHERE id = ?", (answer.id, queued_id))
            return answer

    def defer(self, message_id: str) -> Queued | None:
        """Turns a question whose answer has not begun back into a prompt: the reverse of `take`.

        The prompt keeps the answer's place in the queue, if it had one. Otherwise it comes before the entries of its
        conversation that were asked after it. Returns None and changes nothing if the question has other versions
        or is not the end of the conversation, or if the answer has tool calls, which must not be made again. Raises
        `NotFound`.
        """
        with self._database.write() as sql:
            answer = find_message(sql, message_id)
            question = find_message(sql, str(answer.parent_id))
            conversation = find_conversation(sql, answer.conversation_id)
            (beside,) = sql.execute(
                """
                SELECT EXISTS (
                    SELECT 1 FROM messages WHERE conversation_id = ? AND id NOT IN (?, ?)
                    AND (parent_id IS ? OR parent_id IN (?, ?))
                )
                """,
                (conversation.id, question.id, answer.id, question.parent_id, question.id, answer.id),
            ).fetchone()
            if beside or answer.calls or conversation.tip_id != answer.id:
                return None
            sql.execute("UPDATE conversations SET tip_id = ? WHERE id = ?", (question.parent_id, conversation.id))
            placed = sql.execute("SELECT id FROM queue WHERE message_id = ?", (answer.id,)).fetchone()
            if placed is None:
                queued = _insert(sql, conversation.id, text=question.text, asked=question.created)
                queued_id = _before_others(sql, queued, question.created).id
            else:
                (queued_id,) = placed
                sql.execute(
                    "UPDATE queue SET text = ?, message_id = NULL, answer_id = NULL WHERE id = ?",
                    (question.text, queued_id),
                )
            move_attachments(sql, "message_id", question.id, "queue_id", queued_id)
            sql.execute("DELETE FROM messages WHERE id = ?", (answer.id,))
            sql.execute("DELETE FROM messages WHERE id = ?", (question.id,))
            return _entry(sql, queued_id)

    def swap(self, first_id: str, second_id: str) -> None:
        """Exchanges the places of two entries. Raises `NotFound`."""
        with self._database.write() as sql:
            keys = dict(sql.execute("SELECT id, key FROM queue WHERE id IN (?, ?)", (first_id, second_id)).fetchall())
            for queued_id in (first_id, second_id):
                if queued_id not in keys:
                    raise NotFound(f"There is no {queued_id} in the queue any more; it may have been sent.")
            _place(sql, [(keys[first_id], second_id), (keys[second_id], first_id)])

    def order(self, ids: Sequence[str]) -> None:
        """Reorders these entries within the places that they hold among all entries; ignores ids that are gone."""
        with self._database.write() as sql:
            keys = dict(
                sql.execute(
                    "SELECT id, key FROM queue WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(list(ids)),)
                ).fetchall()
            )
            _place(sql, list(zip(sorted(keys.values()), (one for one in ids if one in keys))))


def _insert(
    sql: Sqlite, conversation_id: str, *, text: str | None = None, message_id: str | None = None, asked: str = ""
) -> Queued:
    """Adds an entry at the end. `asked`: when, if not now."""
    queued_id, moment = new_id(), now()
    sql.execute(
        "INSERT INTO queue (id, conversation_id, text, message_id, created) VALUES (?, ?, ?, ?, ?)",
        (queued_id, conversation_id, text, message_id, asked or moment),
    )
    note_written(sql, conversation_id, moment)
    return _entry(sql, queued_id)


def _place(sql: Sqlite, places: Sequence[tuple[int, str]]) -> None:
    # A key must be unique at every moment and is never below 1, so each passes through its negative.
    for sign in (-1, 1):
        sql.executemany("UPDATE queue SET key = ? WHERE id = ?", ((sign * key, one) for key, one in places))


def _before_others(sql: Sqlite, queued: Queued, since: str = "") -> Queued:
    """Moves an entry before those of its conversation created at `since` or later, within the places they hold."""
    rows = sql.execute(
        "SELECT key, id FROM queue WHERE conversation_id = ? AND created >= ? ORDER BY key",
        (queued.conversation_id, since),
    )
    keys, ids = zip(*rows.fetchall())
    _place(sql, list(zip(keys, [queued.id, *(one for one in ids if one != queued.id)])))
    return _entry(sql, queued.id)


def queued_from(sql: Sqlite, rows: Iterable[Mapping[str, Any]]) -> list[Queued]:
    """Makes entries from rows of `SELECT_QUEUED`, each prompt with its attachments."""
    entries = [Queued(**row) for row in rows]
    found = attachments_of(sql, "queue_id", (one.id for one in entries))
    return [replace(one, attachments=found[one.id]) if one.id in found else one for one in entries]


def _entry(sql: Sqlite, queued_id: str) -> Queued:
    for queued in queued_from(sql, sql.query(f"{SELECT_QUEUED} WHERE {IN_VIEW} AND queue.id = ?", (queued_id,))):
        return queued
    raise NotFound(f"There is no {queued_id} in the queue; `outrider queue` lists what waits.")
