"""The bin: a deleted row disappears from every view at once, and from the database after thirty days.

All rows that one deletion hides have the same time in `deleted`. No other deletion has that time, so rows that were
deleted together are restored together.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from storage.branches import show_branch, versions_of
from storage.database import Database
from storage.errors import NotFound
from storage.records import SELECT_CONVERSATIONS, Conversation, conversation_from
from storage.rows import find_by_beginning, find_conversation, find_message
from storage.sqlite import Sqlite

KEPT = timedelta(days=30)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Bin:
    """Deletes and restores conversations and messages."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def delete(self, conversation_id: str) -> None:
        """Puts a conversation in the bin, with all its branches and what it has queued. Raises `NotFound`."""
        with self._database.write() as sql:
            find_conversation(sql, conversation_id)
            sql.execute("UPDATE conversations SET deleted = ? WHERE id = ?", (_unused_time(sql), conversation_id))
            # Its memory stays until other conversations need the space.
            sql.execute("UPDATE memories SET used = 0 WHERE conversation_id = ?", (conversation_id,))

    def restore(self, conversation_id: str) -> None:
        """Takes a conversation out of the bin. Raises `NotFound`."""
        with self._database.write() as sql:
            _check_anywhere(sql, conversation_id)
            sql.execute(
                "UPDATE conversations SET deleted = NULL WHERE id = ? AND deleted IS NOT NULL", (conversation_id,)
            )

    def erase(self, conversation_id: str) -> None:
        """Removes a conversation, in the bin or not, for good and with all that belongs to it. Raises `NotFound`."""
        with self._database.write() as sql:
            _check_anywhere(sql, conversation_id)
            sql.execute("DELETE FROM conversations WHERE id = ?", (conversation_id,))

    def find(self, beginning: str) -> Conversation:
        """The conversation in the bin whose id begins with this text. Raises `NotFound`, also if there are several."""
        with self._database.read() as sql:
            return find_by_beginning(sql, beginning, binned=True)

    def conversations(self) -> list[Conversation]:
        """The conversations in the bin, the last one deleted first."""
        with self._database.read() as sql:
            rows = sql.query(f"{SELECT_CONVERSATIONS} WHERE deleted IS NOT NULL ORDER BY deleted DESC")
            return [conversation_from(row) for row in rows]

    def delete_message(self, message_id: str) -> None:
        """Hides a message and all that follows it.

        If it was shown, the version before it is shown instead. If there is none, the version after it is shown; if
        there is none either, the branch ends with the message's parent. Raises `NotFound`.
        """
        with self._database.write() as sql:
            message = find_message(sql, message_id)
            (shown,) = sql.execute(
                f"{WITH_BELOW} SELECT tip_id IN below FROM conversations WHERE id = ?",
                (message_id, message.conversation_id),
            ).fetchone()
            if shown:
                versions = versions_of(sql, message)
                at = [version.id for version in versions].index(message_id)
                if len(versions) > 1:
                    show_branch(sql, versions[at - 1] if at else versions[1])
                else:
                    sql.execute(
                        "UPDATE conversations SET tip_id = ? WHERE id = ?", (message.parent_id, message.conversation_id)
                    )
            sql.execute(
                f"{WITH_BELOW} UPDATE messages SET deleted = ? WHERE id IN below AND deleted IS NULL",
                (message_id, _unused_time(sql)),
            )

    def restore_message(self, message_id: str) -> None:
        """Brings back a message with all that was deleted together with it, and shows that branch again.

        The messages above it come back too, if they were deleted later. Raises `NotFound`, also if the conversation is
        in the bin.
        """
        with self._database.write() as sql:
            row = sql.execute("SELECT conversation_id FROM messages WHERE id = ?", (message_id,)).fetchone()
            if row is None:
                raise NotFound(f"There is no message {message_id}; what was deleted is kept for {KEPT.days} days.")
            conversation = find_conversation(sql, row[0])
            sql.execute(
                """
                WITH RECURSIVE above (id) AS (
                    VALUES (:message) UNION ALL SELECT parent_id FROM above JOIN messages USING (id)
                )
                UPDATE messages SET deleted = NULL WHERE conversation_id = :conversation
                AND deleted IN (SELECT deleted FROM messages WHERE id IN above)
                """,
                {"message": message_id, "conversation": conversation.id},
            )
            show_branch(sql, find_message(sql, message_id))

    def purge(self) -> None:
        """Removes for good what has been in the bin for thirty days.

        Days in which nobody wrote do not count, because the clock may just be ahead: they do after the next writing.
        """
        with self._database.write() as sql:
            before = (min(datetime.now(UTC), _last_written(sql)) - KEPT).isoformat(timespec="microseconds")
            for (conversation_id,) in sql.execute(
                "SELECT id FROM conversations WHERE deleted < ?", (before,)
            ).fetchall():
                sql.execute("DELETE FROM conversations WHERE id = ?", (conversation_id,))
            if sql.execute("SELECT 1 FROM messages WHERE deleted < ?", (before,)).fetchone():
                # Including everything below it: if the clock was set back, a message below may have been deleted
                # "later".
                sql.execute(
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
"""SQL that defines `below`: the ids of a message and of all that follows it, in every branch."""


def _unused_time(sql: Sqlite) -> str:
    """The time (UTC, ISO 8601), or that of the last writing if the clock is behind it; unique among deletions."""
    moment = max(datetime.now(UTC), _last_written(sql))
    while True:
        time = moment.isoformat(timespec="microseconds")
        (used,) = sql.execute(
            "SELECT EXISTS (SELECT 1 FROM messages WHERE deleted = :time)"
            " OR EXISTS (SELECT 1 FROM conversations WHERE deleted = :time)",
            {"time": time},
        ).fetchone()
        if not used:
            return time
        moment += timedelta(microseconds=1)


def _last_written(sql: Sqlite) -> datetime:
    """When any conversation was last written to, by the clock of then."""
    (newest,) = sql.execute("SELECT max(written) FROM conversations").fetchone()
    return EPOCH + timedelta(milliseconds=newest or 0)


def _check_anywhere(sql: Sqlite, conversation_id: str) -> None:
    """Raises `NotFound` if the conversation does not exist, in the bin or out of it."""
    if not sql.execute("SELECT 1 FROM conversations WHERE id = ?", (conversation_id,)).fetchone():
        raise NotFound(f"There is no conversation {conversation_id}, nor is it in the bin any more.")
