"""Summaries: what replaces the older messages of a conversation in later prompts.

A summary is an answer like any other, to a question that asks for it. Both are stored after the last message that it
stands for, as siblings of the messages that really follow, on a branch that is never shown. So it counts on every
branch through that message and on no other, and the messages that it stands for never change. Only a complete one
counts: if it was cut off, or its program died, everything is as before.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from storage.database import Database
from storage.records import Message
from storage.rows import add_message, find_conversation, find_message, new_message, path_to
from storage.sqlite import Sqlite


class Summary(NamedTuple):
    """A complete summary, and the question that asked for it."""

    question: Message
    answer: Message

    @property
    def up_to(self) -> str | None:
        """Id of the last message that it stands for."""
        return self.question.parent_id


class Summaries:
    """Summaries that count in prompts. To take one back, put its question in the bin."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of(self, conversation_id: str) -> Summary | None:
        """The summary that the next prompt of the shown branch has. Raises `NotFound`."""
        with self._database.read() as sql:
            return newest_summary(sql, path_to(sql, find_conversation(sql, conversation_id).tip_id))

    def version(self, conversation_id: str) -> int:
        """A number that changes when a summary of the conversation is completed or taken back."""
        with self._database.read() as sql:
            (version,) = sql.execute(
                """
                SELECT coalesce(sum(key), 0) FROM messages
                WHERE conversation_id = ? AND summary AND status = 'done' AND role = 'assistant' AND deleted IS NULL
                """,
                (conversation_id,),
            ).fetchone()
            return int(version)

    def begin(self, up_to: Message, question: str) -> Message:
        """Stores a question for a summary of the messages up to this one, and its pending answer, which is returned.

        Raises `NotFound`.
        """
        with self._database.write() as sql:
            find_message(sql, up_to.id)
            asked = new_message(
                up_to.conversation_id, "user", question, parent_id=up_to.id, status="done", summary=True
            )
            answer = new_message(
                up_to.conversation_id, "assistant", "", parent_id=asked.id, status="pending", summary=True
            )
            add_message(sql, asked)
            return add_message(sql, answer, self._database.owner.claim())

    def made_together(self, first: Summary, last: Summary) -> bool:
        """Whether no message was added between them, as between the parts of one summary."""
        with self._database.read() as sql:
            (between,) = sql.execute(
                """
                SELECT count(*) FROM messages WHERE conversation_id = ? AND NOT summary
                AND key > (SELECT key FROM messages WHERE id = ?) AND key < (SELECT key FROM messages WHERE id = ?)
                """,
                (first.question.conversation_id, first.question.id, last.question.id),
            ).fetchone()
            return not between

    def read(self, message_id: str) -> list[Message]:
        """The messages before this one as its prompt has them: the older ones as their summary, if there was one.

        Raises `NotFound`.
        """
        with self._database.read() as sql:
            *before, message = path_to(sql, find_message(sql, message_id).id)
            return _summed(before, newest_summary(sql, before, made_before=message.id))

    def shown(self, conversation_id: str) -> list[Message]:
        """The shown branch as the next prompt has it. Raises `NotFound`."""
        with self._database.read() as sql:
            path = path_to(sql, find_conversation(sql, conversation_id).tip_id)
            return _summed(path, newest_summary(sql, path))


def newest_summary(sql: Sqlite, path: Sequence[Message], *, made_before: str | None = None) -> Summary | None:
    """The complete summary that stands for the most messages of this path, inside the caller's transaction.

    `made_before`: id of the message for whose prompt it is.
    """
    places = {message.id: place for place, message in enumerate(path)}
    rows = sql.execute(
        """
        SELECT answer.id, question.parent_id, answer.key FROM messages AS answer
        JOIN messages AS question ON question.id = answer.parent_id
        WHERE answer.conversation_id = ? AND answer.summary AND answer.role = 'assistant' AND question.summary
        AND answer.status = 'done' AND answer.text != '' AND json_extract(answer.stats, '$.reason') = 'end'
        AND answer.deleted IS NULL AND question.parent_id IN (SELECT value FROM json_each(?))
        AND answer.key < coalesce((SELECT key FROM messages WHERE id = ?), answer.key + 1)
        """,
        (path[0].conversation_id if path else "", json.dumps(list(places)), made_before),
    ).fetchall()
    if not rows:
        return None
    newest, *_ = max(rows, key=lambda row: (places[row[1]], row[2]))
    *_, question, answer = path_to(sql, newest)
    return Summary(question, answer)


def _summed(path: Sequence[Message], summary: Summary | None) -> list[Message]:
    """A path with a summary in place of the messages that it stands for. System prompts stay."""
    if summary is None:
        return list(path)
    ends = next(place for place, message in enumerate(path) if message.id == summary.up_to)
    systems = [message for message in path[: ends + 1] if message.role == "system"]
    return [*systems, summary.question, summary.answer, *path[ends + 1 :]]
