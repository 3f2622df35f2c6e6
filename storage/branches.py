"""Which branch of a conversation is shown, and which ways lead off it.

Messages that have the same parent and the same role are versions of one another. A message that says nothing and leads
nowhere is none, nor is a try to verify or resume another one that came to nothing: nobody would want to see those.
"""

from __future__ import annotations

import msgspec

from storage.database import Database
from storage.messages import SELECT_MESSAGES, Conversation, Message, message_from, pack_provenance, pack_tokens
from storage.rows import find_conversation, find_message, new_id, now
from storage.sqlite import Sqlite
from storage.words import words

HAS_CHILDREN = """
    EXISTS (
        SELECT 1 FROM messages AS child
        WHERE child.conversation_id = messages.conversation_id AND child.parent_id = messages.id
        AND child.deleted IS NULL
    )
"""
SAYS_SOMETHING = """
    coalesce(partials.text, messages.text) != ''
    AND (messages.status = 'done' OR json_extract(messages.stats, '$.verifies') IS NULL)
    AND (messages.status != 'failed' OR length(messages.tokens) > coalesce(
        (SELECT length(cut.tokens) FROM messages AS cut WHERE cut.id = json_extract(messages.stats, '$.resumes')), -1
    ))
"""
IS_VERSION = f"""
    messages.deleted IS NULL AND (
        {SAYS_SOMETHING} OR {HAS_CHILDREN}
        OR messages.id = (SELECT tip_id FROM conversations WHERE conversations.id = messages.conversation_id)
    )
"""
WITH_PARTIALS = "LEFT JOIN partials ON partials.message_id = messages.id"


class Branches(Database):
    def thread(self, conversation_id: str) -> list[Message]:
        """The shown branch, from its first message to the conversation's tip. Raises `NotFound`."""
        with self._read() as database:
            return _branch(database, find_conversation(database, conversation_id).tip_id)

    def branch(self, message_id: str) -> list[Message]:
        """From the first message of a branch to this one, whichever branch is shown. Raises `NotFound`."""
        with self._read() as database:
            return _branch(database, find_message(database, message_id).id)

    def set_tip(self, conversation_id: str, message_id: str) -> None:
        """Shows the branch that ends with this message. Raises `NotFound`."""
        with self._write() as database:
            find_message(database, message_id, conversation_id)
            database.execute("UPDATE conversations SET tip_id = ? WHERE id = ?", (message_id, conversation_id))

    def show(self, message_id: str) -> None:
        """Shows the branch that goes through this message, to the newest end below it. Raises `NotFound`."""
        with self._write() as database:
            show_branch(database, find_message(database, message_id))

    def siblings(self, message_id: str) -> list[Message]:
        """The versions of this message, itself among them, oldest first. Raises `NotFound`."""
        with self._read() as database:
            return versions_of(database, find_message(database, message_id))

    def versions(self, conversation_id: str) -> dict[str, tuple[int, int]]:
        """For each message of the shown branch that has others beside it: its place among them, from 1, and how many.

        Raises `NotFound`.
        """
        with self._read() as database:
            tip_id = find_conversation(database, conversation_id).tip_id
            rows = database.execute(
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
        """A new conversation with a copy of the branch up to this message. Raises `NotFound`.

        What is being written ends in the copy as 'stopped', with what there is of it.
        """
        with self._write() as database:
            title = find_conversation(database, conversation_id).title
            branch = _branch(database, find_message(database, up_to, conversation_id).id)
            copy_id, created = new_id(), now()
            database.execute(
                "INSERT INTO conversations (id, title, words, created, updated) VALUES (?, ?, ?, ?, ?)",
                (copy_id, title, words(title), created, created),
            )
            ids = {message.id: new_id() for message in branch}
            for message in branch:
                parent_id = None if message.parent_id is None else ids[message.parent_id]
                _copy(database, message, ids[message.id], copy_id, parent_id)
            database.execute("UPDATE conversations SET tip_id = ? WHERE id = ?", (ids[up_to], copy_id))
            return find_conversation(database, copy_id)


def show_branch(database: Sqlite, message: Message) -> None:
    """The same as `show`, inside the caller's transaction."""
    database.execute(
        "UPDATE conversations SET tip_id = ? WHERE id = ?",
        (_newest_end(database, message.id), message.conversation_id),
    )


def versions_of(database: Sqlite, message: Message) -> list[Message]:
    """The same as `siblings`."""
    rows = database.query(
        f"""
        {SELECT_MESSAGES}
        WHERE messages.conversation_id = ? AND messages.parent_id IS ? AND messages.role = ?
        AND ({IS_VERSION} OR messages.id = ?)
        ORDER BY messages.key
        """,
        (message.conversation_id, message.parent_id, message.role, message.id),
    )
    return [message_from(row) for row in rows]


def _newest_end(database: Sqlite, message_id: str) -> str:
    """Where the newest branch through a message ends; with one that says something, if there is one."""
    row = database.execute(
        f"""
        WITH RECURSIVE below (id, conversation_id) AS (
            SELECT id, conversation_id FROM messages WHERE id = ?
            UNION ALL
            SELECT messages.id, messages.conversation_id FROM below JOIN messages
            ON messages.conversation_id = below.conversation_id AND messages.parent_id = below.id
            WHERE messages.deleted IS NULL
        )
        SELECT messages.id FROM below JOIN messages USING (id) {WITH_PARTIALS} WHERE NOT {HAS_CHILDREN}
        ORDER BY {SAYS_SOMETHING} DESC, messages.key DESC LIMIT 1
        """,
        (message_id,),
    ).fetchone()
    end: str = row[0]
    return end


def _branch(database: Sqlite, tip_id: str | None) -> list[Message]:
    rows = database.query(
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
    return [message_from(row) for row in rows]


def _copy(database: Sqlite, message: Message, message_id: str, conversation_id: str, parent_id: str | None) -> None:
    status = "stopped" if message.status in ("pending", "streaming") else message.status
    database.execute(
        """
        INSERT INTO messages
            (id, conversation_id, parent_id, role, text, words, status, tokens, provenance, stats, created)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        """,
        (
            message_id,
            conversation_id,
            parent_id,
            message.role,
            message.text,
            words(message.text),
            status,
            pack_tokens(message.tokens),
            pack_provenance(message.provenance),
            msgspec.json.encode(message.stats).decode(),
            message.created,
        ),
    )
