"""Deleting, and taking it back: what is deleted leaves every view at once, and the database after thirty days.

All that one deletion hides carries the same time in `deleted`, which no other deletion has, and comes back together.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from storage.branches import show_branch, versions_of
from storage.database import Database, NotFound
from storage.messages import SELECT_CONVERSATIONS, Conversation, conversation_from
from storage.rows import find_conversation, find_message
from storage.sqlite import Sqlite

KEPT = timedelta(days=30)


class Bin(Database):
    def delete(self, conversation_id: str) -> None:
        """Puts a conversation in the bin, with all its branches and what it has queued. Raises `NotFound`."""
        with self._write() as database:
            find_conversation(database, conversation_id)
            database.execute(
                "UPDATE conversations SET deleted = ? WHERE id = ?", (_unused_time(database), conversation_id)
            )
            # Its memory stays as long as nothing else needs the room.
            database.execute("UPDATE memories SET used = 0 WHERE conversation_id = ?", (conversation_id,))

    def restore(self, conversation_id: str) -> None:
        """Takes a conversation out of the bin again. Raises `NotFound`."""
        with self._write() as database:
            _conversation_anywhere(database, conversation_id)
            database.execute(
                "UPDATE conversations SET deleted = NULL WHERE id = ? AND deleted IS NOT NULL", (conversation_id,)
            )

    def erase(self, conversation_id: str) -> None:
        """Removes a conversation, in the bin or not, for good and with all that belongs to it. Raises `NotFound`."""
        with self._write() as database:
            _conversation_anywhere(database, conversation_id)
            database.execute("DELETE FROM conversations WHERE id = ?", (conversation_id,))

    def deleted_conversations(self) -> list[Conversation]:
        """What is in the bin, the last one that was put there first."""
        with self._read() as database:
            rows = database.query(f"{SELECT_CONVERSATIONS} WHERE deleted IS NOT NULL ORDER BY deleted DESC")
            return [conversation_from(row) for row in rows]

    def delete_message(self, message_id: str) -> None:
        """Hides a message and all that was said after it.

        Where it was shown, the version before it is shown instead, else the one after it, else what stood before it.
        Raises `NotFound`.
        """
        with self._write() as database:
            message = find_message(database, message_id)
            (shown,) = database.execute(
                f"{WITH_BELOW} SELECT tip_id IN below FROM conversations WHERE id = ?",
                (message_id, message.conversation_id),
            ).fetchone()
            if shown:
                versions = versions_of(database, message)
                at = [version.id for version in versions].index(message_id)
                if len(versions) > 1:
                    show_branch(database, versions[at - 1] if at else versions[1])
                else:
                    database.execute(
                        "UPDATE conversations SET tip_id = ? WHERE id = ?",
                        (message.parent_id, message.conversation_id),
                    )
            database.execute(
                f"{WITH_BELOW} UPDATE messages SET deleted = ? WHERE id IN below AND deleted IS NULL",
                (message_id, _unused_time(database)),
            )

    def restore_message(self, message_id: str) -> None:
        """Brings back a message with all that left together with it, and shows that branch again.

        So does what it followed, where that was deleted later. Raises `NotFound`, too, where its conversation is in
        the bin.
        """
        with self._write() as database:
            row = database.execute("SELECT conversation_id FROM messages WHERE id = ?", (message_id,)).fetchone()
            if row is None:
                raise NotFound(f"There is no message {message_id}; what was deleted is kept for {KEPT.days} days.")
            conversation = find_conversation(database, row[0])
            database.execute(
                """
                WITH RECURSIVE above (id) AS (
                    VALUES (:message) UNION ALL SELECT parent_id FROM above JOIN messages USING (id)
                )
                UPDATE messages SET deleted = NULL WHERE conversation_id = :conversation
                AND deleted IN (SELECT deleted FROM messages WHERE id IN above)
                """,
                {"message": message_id, "conversation": conversation.id},
            )
            show_branch(database, find_message(database, message_id))

    def purge(self) -> None:
        """Removes for good what has been in the bin for thirty days."""
        before = (datetime.now(UTC) - KEPT).isoformat(timespec="microseconds")
        with self._write() as database:
            for (conversation_id,) in database.execute(
                "SELECT id FROM conversations WHERE deleted < ?", (before,)
            ).fetchall():
                database.execute("DELETE FROM conversations WHERE id = ?", (conversation_id,))
            if database.execute("SELECT 1 FROM messages WHERE deleted < ?", (before,)).fetchone():
                # With all below it: a clock that was set back may have made what was deleted before it the younger.
                database.execute(
                    """
                    WITH RECURSIVE gone (id, conversation_id) AS (
                        SELECT id, conversation_id FROM messages WHERE deleted < ?
                        UNION
                        SELECT messages.id, messages.conversation_id FROM gone JOIN messages
                        ON messages.conversation_id = gone.conversation_id AND messages.parent_id = gone.id
                    )
                    DELETE FROM messages WHERE id IN (SELECT id FROM gone)
                    """,
                    (before,),
                )


WITH_BELOW = """
    WITH RECURSIVE tree (id, conversation_id) AS (
        SELECT id, conversation_id FROM messages WHERE id = ?
        UNION ALL
        SELECT messages.id, messages.conversation_id FROM tree JOIN messages
        ON messages.conversation_id = tree.conversation_id AND messages.parent_id = tree.id
    ), below (id) AS (SELECT id FROM tree)
"""
"""`below`: a message and all that follows it, in whichever branch."""


def _unused_time(database: Sqlite) -> str:
    """Now, UTC, ISO 8601; not the time of any other deletion, also where the clock has only milliseconds."""
    while True:
        time = datetime.now(UTC).isoformat(timespec="microseconds")
        (used,) = database.execute(
            "SELECT EXISTS (SELECT 1 FROM messages WHERE deleted = :time)"
            " OR EXISTS (SELECT 1 FROM conversations WHERE deleted = :time)",
            {"time": time},
        ).fetchone()
        if not used:
            return time


def _conversation_anywhere(database: Sqlite, conversation_id: str) -> None:
    if not database.execute("SELECT 1 FROM conversations WHERE id = ?", (conversation_id,)).fetchone():
        raise NotFound(f"There is no conversation {conversation_id}, nor is it in the bin any more.")
