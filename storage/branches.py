"""Branches: which one of a conversation is shown, and which versions of its messages there are.

Messages with the same parent and the same role are versions of one another. Two kinds are hidden from the list of
versions: a message without text that nothing follows, and a failed attempt to verify or resume another message. A
summary is on no branch that is shown.
"""

from __future__ import annotations

from dataclasses import replace

from storage.database import Database
from storage.records import SELECT_MESSAGES, WITH_PARTIALS, Conversation, Message, message_from
from storage.rows import find_conversation, find_message, insert_conversation, insert_messages, new_id, now, path_to
from storage.sqlite import Sqlite
from storage.summaries import newest_summary

HAS_CHILDREN = """
    EXISTS (
        SELECT 1 FROM messages AS child
        WHERE child.conversation_id = messages.conversation_id AND child.parent_id = messages.id
        AND child.deleted IS NULL AND NOT child.summary
    )
"""
SAYS_SOMETHING = """
    coalesce(partials.text, messages.text) != ''
    AND (messages.status = 'done' OR messages.verifies IS NULL)
    AND (messages.status != 'failed' OR length(messages.tokens) > coalesce(
        (SELECT length(cut.tokens) FROM messages AS cut WHERE cut.id = messages.resumes), -1
    ))
"""
IS_VERSION = f"""
    messages.deleted IS NULL AND NOT messages.summary AND (
        {SAYS_SOMETHING} OR {HAS_CHILDREN}
        OR messages.id = (SELECT tip_id FROM conversations WHERE conversations.id = messages.conversation_id)
    )
"""


class Branches:
    """The paths through each conversation's tree of messages."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def thread(self, conversation_id: str) -> list[Message]:
        """The shown branch, from its first message to the conversation's tip. Raises `NotFound`."""
        with self._database.read() as sql:
            return path_to(sql, find_conversation(sql, conversation_id).tip_id)

    def path(self, message_id: str) -> list[Message]:
        """The messages from the first one of a branch to this one, shown or not. Raises `NotFound`."""
        with self._database.read() as sql:
            return path_to(sql, find_message(sql, message_id).id)

    def show(self, message_id: str) -> None:
        """Shows the branch through this message that has the newest end. Raises `NotFound`."""
        with self._database.write() as sql:
            show_branch(sql, find_message(sql, message_id))

    def siblings(self, message_id: str) -> list[Message]:
        """The versions of this message and the message itself, oldest first. Raises `NotFound`."""
        with self._database.read() as sql:
            return versions_of(sql, find_message(sql, message_id))

    def versions(self, conversation_id: str) -> dict[str, tuple[int, int]]:
        """(place, count) for each message of the shown branch that has other versions; places count from 1.

        Raises `NotFound`.
        """
        with self._database.read() as sql:
            tip_id = find_conversation(sql, conversation_id).tip_id
            rows = sql.execute(
                f"""
                WITH RECURSIVE shown (id) AS (
                    VALUES (:tip) UNION ALL SELECT parent_id FROM shown JOIN messages USING (id)
                ), places AS (
                    SELECT id, row_number() OVER (beside ORDER BY messages.key) AS place, count(*) OVER beside AS count
                    FROM messages {WITH_PARTIALS} WHERE messages.conversation_id = :conversation AND {IS_VERSION}
                    WINDOW beside AS (PARTITION BY parent_id, role)
                )
                SELECT id, place, count FROM places JOIN shown USING (id) WHERE count > 1
                """,
                {"tip": tip_id, "conversation": conversation_id},
            )
            return {message_id: (place, count) for message_id, place, count in rows}

    def duplicate(self, conversation_id: str, up_to: str) -> Conversation:
        """Copies the branch up to this message into a new conversation, which is returned. Raises `NotFound`.

        An answer that is being written ends in the copy as 'stopped', with its text so far. A summary of this branch is
        copied too.
        """
        with self._database.write() as sql:
            original = find_conversation(sql, conversation_id)
            path = path_to(sql, find_message(sql, up_to, conversation_id).id)
            if (summary := newest_summary(sql, path)) is not None:
                path += [summary.question, summary.answer]
            created = now()
            copy = replace(original, id=new_id(), tip_id=None, created=created, updated=created, pinned=False)
            ids = {message.id: new_id() for message in path}
            insert_conversation(sql, copy)
            insert_messages(
                sql,
                [
                    replace(
                        message,
                        id=ids[message.id],
                        conversation_id=copy.id,
                        parent_id=None if message.parent_id is None else ids[message.parent_id],
                    )
                    for message in path
                ],
            )
            sql.execute("UPDATE conversations SET tip_id = ? WHERE id = ?", (ids[up_to], copy.id))
            return replace(copy, tip_id=ids[up_to])


def show_branch(sql: Sqlite, message: Message) -> None:
    """Shows the branch through `message` that has the newest end, inside the caller's transaction."""
    sql.execute(
        "UPDATE conversations SET tip_id = ? WHERE id = ?", (_newest_end(sql, message.id), message.conversation_id)
    )


def versions_of(sql: Sqlite, message: Message) -> list[Message]:
    """The versions of `message` and itself, oldest first, inside the caller's transaction."""
    rows = sql.query(
        f"""
        {SELECT_MESSAGES}
        WHERE messages.conversation_id = ? AND messages.parent_id IS ? AND messages.role = ?
        AND ({IS_VERSION} OR messages.id = ?)
        ORDER BY messages.key
        """,
        (message.conversation_id, message.parent_id, message.role, message.id),
    )
    return [message_from(row) for row in rows]


def _newest_end(sql: Sqlite, message_id: str) -> str:
    """The newest message below this one that nothing follows; one that says something, if there is any."""
    row = sql.execute(
        f"""
        WITH RECURSIVE below (id, conversation_id) AS (
            SELECT id, conversation_id FROM messages WHERE id = ?
            UNION ALL
            SELECT messages.id, messages.conversation_id FROM below JOIN messages
            ON messages.conversation_id = below.conversation_id AND messages.parent_id = below.id
            WHERE messages.deleted IS NULL AND NOT messages.summary
        )
        SELECT messages.id FROM below JOIN messages USING (id) {WITH_PARTIALS} WHERE NOT {HAS_CHILDREN}
        ORDER BY {SAYS_SOMETHING} DESC, messages.key DESC LIMIT 1
        """,
        (message_id,),
    ).fetchone()
    end: str = row[0]
    return end
