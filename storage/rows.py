"""Single conversations and messages, looked up and added inside a caller's transaction."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime

import msgspec

from storage.database import NotFound
from storage.messages import (
    SELECT_CONVERSATIONS,
    SELECT_MESSAGES,
    Conversation,
    Message,
    Role,
    Stats,
    Status,
    conversation_from,
    message_from,
    well_formed,
)
from storage.sqlite import Sqlite
from storage.words import words


def insert_message(
    database: Sqlite,
    conversation_id: str,
    role: Role,
    text: str,
    *,
    parent_id: str | None,
    status: Status,
    owner: str | None,
    stats: Stats | None = None,
    tip: bool = True,
) -> Message:
    """A new message inside the caller's transaction; `tip`: the shown branch ends with it from now on."""
    message_id, created = new_id(), now()
    database.execute(
        """
        INSERT INTO messages (id, conversation_id, parent_id, role, text, words, status, owner, stats, created)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        """,
        (
            message_id,
            conversation_id,
            parent_id,
            role,
            well_formed(text),
            words(well_formed(text)),
            status,
            owner,
            msgspec.json.encode(stats or {}).decode(),
            created,
        ),
    )
    database.execute(
        "UPDATE conversations SET tip_id = CASE WHEN ? THEN ? ELSE tip_id END, updated = ? WHERE id = ?",
        (tip, message_id, created, conversation_id),
    )
    return find_message(database, message_id)


def insert_question(database: Sqlite, conversation_id: str, text: str, *, parent_id: str | None, owner: str) -> Message:
    """A question and its pending answer, which is returned, inside the caller's transaction."""
    question = insert_message(database, conversation_id, "user", text, parent_id=parent_id, status="done", owner=None)
    return insert_message(
        database, conversation_id, "assistant", "", parent_id=question.id, status="pending", owner=owner
    )


def find_conversation(database: Sqlite, conversation_id: str) -> Conversation:
    """One that is not in the bin. Raises `NotFound`."""
    for row in database.query(f"{SELECT_CONVERSATIONS} WHERE id = ? AND deleted IS NULL", (conversation_id,)):
        return conversation_from(row)
    raise NotFound(f"There is no conversation {conversation_id}; `outrider history` lists them.")


def find_message(database: Sqlite, message_id: str, conversation_id: str | None = None) -> Message:
    """One that was not deleted. Raises `NotFound`."""
    for row in database.query(f"{SELECT_MESSAGES} WHERE messages.id = ? AND messages.deleted IS NULL", (message_id,)):
        if conversation_id in (None, row["conversation_id"]):
            return message_from(row)
    where = "" if conversation_id is None else f" in conversation {conversation_id}"
    raise NotFound(f"There is no message {message_id}{where}; it, or its conversation, may have been deleted.")


def new_id() -> str:
    return secrets.token_hex(8)


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
