"""Conversations and messages, found and added inside the caller's transaction."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from storage.attachments import Attachment, attachments_of, insert_attachments
from storage.calls import calls_of, insert_calls, leave_unknown
from storage.choices import pack_choices
from storage.errors import NotFound
from storage.records import (
    SELECT_CONVERSATIONS,
    SELECT_MESSAGES,
    Conversation,
    Message,
    Role,
    Status,
    conversation_from,
    message_from,
    pack_provenance,
    pack_stats,
    pack_tokens,
)
from storage.sqlite import Sqlite
from storage.words import well_formed, words


def insert_conversation(sql: Sqlite, conversation: Conversation, *, imported: bool = False) -> None:
    """Adds a conversation without its tip, which must follow the messages that it points at.

    It becomes the most recently written one, unless it is `imported`: then its own time decides its place.
    """
    sql.execute(
        """
        INSERT INTO conversations (id, title, words, created, updated, written, pinned, choices)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?)
        """,
        (
            conversation.id,
            conversation.title,
            words(conversation.title),
            conversation.created,
            conversation.updated,
            imported_place(conversation.updated) if imported else _last_place(sql, conversation.updated),
            conversation.pinned,
            pack_choices(conversation.choices),
        ),
    )


def note_written(sql: Sqlite, conversation_id: str, moment: str) -> None:
    """Records that a conversation was written to at this time, after all others."""
    sql.execute(
        "UPDATE conversations SET updated = ?, written = ? WHERE id = ?",
        (moment, _last_place(sql, moment), conversation_id),
    )


def imported_place(updated: str) -> int:
    """The place in `written` of a conversation from elsewhere. Its clock may have been ahead."""
    return min(_milliseconds(updated), _milliseconds(now()))


def _last_place(sql: Sqlite, moment: str) -> int:
    """A place in `written` after all others: the time, or more if a clock was ahead when an earlier place was given."""
    (last,) = sql.execute("SELECT max(written) FROM conversations").fetchone()
    return max(_milliseconds(moment), (last or 0) + 1)


def _milliseconds(moment: str) -> int:
    """Milliseconds since 1970; 0 for an invalid time, since an import may hold anything."""
    try:
        when = datetime.fromisoformat(moment)
    except ValueError:
        return 0
    return max(0, round(1000 * (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()))


def insert_messages(
    sql: Sqlite, messages: Sequence[Message], *, owner: str | None = None, indexed: bool = True
) -> None:
    """Adds messages as they are, parents before their children. `owner` is the writer of the unfinished ones.

    Without an owner, an unfinished message is stored as 'stopped'. `indexed`: make them searchable.
    """
    sql.executemany(
        """
        INSERT INTO messages
            (id, conversation_id, parent_id, role, text, words, status, tokens, provenance, stats, owner, created,
            verifies, resumes, reasoning, summary)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        """,
        (
            (
                message.id,
                message.conversation_id,
                message.parent_id,
                message.role,
                message.text,
                words(message.text) if indexed else "",
                message.status if message.finished or owner else "stopped",
                pack_tokens(message.tokens),
                pack_provenance(message.provenance),
                pack_stats(message.stats),
                None if message.finished else owner,
                message.created,
                message.verifies,
                message.resumes,
                message.reasoning,
                message.summary,
            )
            for message in messages
        ),
    )
    for message in messages:
        if message.attachments:
            insert_attachments(sql, "message_id", message.id, message.attachments)
        if message.calls:
            insert_calls(sql, message.id, message.calls)
            if owner is None:  # What is copied is not being made here.
                leave_unknown(sql, message.id)


def new_message(
    conversation_id: str,
    role: Role,
    text: str,
    *,
    parent_id: str | None,
    status: Status,
    verifies: str | None = None,
    resumes: str | None = None,
    summary: bool = False,
) -> Message:
    """A message that is not stored yet."""
    return Message(
        id=new_id(),
        conversation_id=conversation_id,
        parent_id=parent_id,
        role=role,
        text=well_formed(text),
        status=status,
        tokens=(),
        provenance=(),
        stats={},
        created=now(),
        verifies=verifies,
        resumes=resumes,
        summary=summary,
    )


def add_message(sql: Sqlite, message: Message, owner: str | None = None) -> Message:
    """Adds a new message and returns it.

    The shown branch ends with it, unless it `verifies` another message or is part of a summary.
    """
    insert_messages(sql, [message], owner=owner)
    if message.verifies is None and not message.summary:
        sql.execute("UPDATE conversations SET tip_id = ? WHERE id = ?", (message.id, message.conversation_id))
    note_written(sql, message.conversation_id, message.created)
    return message


def add_question(
    sql: Sqlite,
    conversation_id: str,
    text: str,
    *,
    parent_id: str | None,
    owner: str,
    attachments: Sequence[Attachment] = (),
    asked: str | None = None,
) -> Message:
    """Adds a question with its attachments, and its pending answer, which is returned. `asked`: when, if not now."""
    question = new_message(conversation_id, "user", text, parent_id=parent_id, status="done")
    add_message(sql, replace(question, attachments=tuple(attachments), created=asked or question.created))
    answer = new_message(conversation_id, "assistant", "", parent_id=question.id, status="pending")
    return add_message(sql, answer, owner)


def find_conversation(sql: Sqlite, conversation_id: str) -> Conversation:
    """The conversation with that id. Raises `NotFound`, also if it is in the bin."""
    for row in sql.query(f"{SELECT_CONVERSATIONS} WHERE id = ? AND deleted IS NULL", (conversation_id,)):
        return conversation_from(row)
    raise NotFound(f"There is no conversation {conversation_id}; `outrider history` lists them.")


def find_by_beginning(sql: Sqlite, beginning: str, *, binned: bool = False) -> Conversation:
    """The conversation, in the bin or not, whose id begins with this text.

    Raises `NotFound`, also if there are several.
    """
    where = "the bin" if binned else "the list"
    listed = "outrider history list --bin" if binned else "outrider history"
    rows = sql.query(
        f"{SELECT_CONVERSATIONS} WHERE substr(id, 1, length(:begins)) = :begins AND (deleted IS NOT NULL) = :binned "
        "ORDER BY id != :begins, id LIMIT 4",
        {"begins": beginning, "binned": binned},
    )
    found = [conversation_from(row) for row in rows]
    if not beginning or not found:
        raise NotFound(f"There is no conversation {beginning} in {where}; `{listed}` lists them.")
    if len(found) > 1 and found[0].id != beginning:
        several = ", ".join(one.id for one in found[:3]) + (" and more" if len(found) > 3 else "")
        raise NotFound(f"More than one conversation begins with {beginning}: {several}. Give more of the id.")
    return found[0]


def find_message(sql: Sqlite, message_id: str, conversation_id: str | None = None) -> Message:
    """The message with that id, in that conversation if one is given. Raises `NotFound`, also if it was deleted."""
    for row in sql.query(f"{SELECT_MESSAGES} WHERE messages.id = ? AND messages.deleted IS NULL", (message_id,)):
        if conversation_id in (None, row["conversation_id"]):
            return with_attachments(sql, [message_from(row)])[0]
    where = "" if conversation_id is None else f" in conversation {conversation_id}"
    raise NotFound(f"There is no message {message_id}{where}; it, or its conversation, may have been deleted.")


def messages_of(sql: Sqlite, conversation_id: str) -> list[Message]:
    """The messages of every branch, without deleted ones, oldest first, so parents before their children."""
    rows = sql.query(
        f"{SELECT_MESSAGES} WHERE messages.conversation_id = ? AND messages.deleted IS NULL ORDER BY messages.key",
        (conversation_id,),
    )
    return with_attachments(sql, [message_from(row) for row in rows])


def path_to(sql: Sqlite, tip_id: str | None) -> list[Message]:
    """The messages from the first one of a branch to this one, inside the caller's transaction."""
    rows = sql.query(
        f"""
        WITH RECURSIVE branch (id, height) AS (
            VALUES (?, 0)
            UNION ALL
            SELECT parent_id, height + 1 FROM branch JOIN messages USING (id)
        )
        {SELECT_MESSAGES} JOIN branch ON branch.id = messages.id ORDER BY branch.height DESC
        """,
        (tip_id,),
    )
    return with_attachments(sql, [message_from(row) for row in rows])


def with_attachments(sql: Sqlite, messages: Sequence[Message]) -> list[Message]:
    """These messages with what other tables hold of them: attachments of questions, tool calls of answers."""
    found = attachments_of(sql, "message_id", (message.id for message in messages if message.role == "user"))
    messages = [replace(one, attachments=found[one.id]) if one.id in found else one for one in messages]
    called = calls_of(sql, (message.id for message in messages if message.role == "assistant"))
    return [replace(one, calls=called[one.id]) if one.id in called else one for one in messages]


def new_id() -> str:
    return secrets.token_hex(8)


def now() -> str:
    """The time in UTC, ISO 8601, with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
