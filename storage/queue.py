"""What waits for the target: prompts that were not sent yet, and answers that it has yet to verify.

Nothing here is lost or sent twice, whenever the program dies: a prompt becomes a question with a pending answer, and
its row that answer's, in one transaction; the row goes in the transaction that finishes what settles it
(`Conversations.finish`). Whatever a dead process left half answered is an answer to be verified.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from storage.database import Database, NotFound
from storage.messages import Message, well_formed
from storage.rows import find_conversation, find_message, insert_message, insert_question, new_id, now
from storage.sqlite import Sqlite

SELECT_QUEUED = """
    SELECT queue.id, queue.conversation_id, queue.message_id, coalesce(queue.text, question.text, '') AS text,
        queue.created, queue.key AS place
    FROM queue
    JOIN conversations ON conversations.id = queue.conversation_id
    LEFT JOIN messages AS answer ON answer.id = queue.message_id
    LEFT JOIN messages AS question ON question.id = answer.parent_id
    LEFT JOIN messages AS beside ON beside.id = queue.answer_id
"""
"""What was deleted, too."""
IN_VIEW = "conversations.deleted IS NULL AND answer.deleted IS NULL"
"""It was not deleted; what is restored waits again."""
WAITING = f"{IN_VIEW} AND answer.owner IS NULL AND beside.owner IS NULL"
"""Nobody is at work on it."""
TIP_FINISHED = """
    NOT EXISTS (
        SELECT 1 FROM messages AS tip WHERE tip.id = conversations.tip_id AND tip.owner IS NOT NULL
    )
"""


@dataclass(frozen=True)
class Queued:
    """A prompt for the target, or an answer that it is to verify."""

    id: str
    conversation_id: str
    message_id: str | None
    """The answer to be verified; None: a prompt, which follows the conversation's tip when it is sent."""
    text: str
    """The prompt, or the question of the answer."""
    created: str
    """UTC, ISO 8601."""
    place: int = field(default=0, compare=False)
    """What has a lower one is sent first, in whichever conversation. It says nothing else."""

    @property
    def kind(self) -> Literal["ask", "verify"]:
        return "ask" if self.message_id is None else "verify"


class Queue(Database):
    def enqueue(self, conversation_id: str, text: str) -> Queued:
        """Keeps a prompt for the target, after those that wait already. Raises `NotFound`."""
        with self._write() as database:
            find_conversation(database, conversation_id)
            return _insert(database, conversation_id, text=well_formed(text))

    def enqueue_verification(self, message_id: str) -> Queued:
        """Has an answer verified when the target can be asked; it is queued once. Raises `NotFound`."""
        with self._write() as database:
            message = find_message(database, message_id)
            for row in database.query(f"{SELECT_QUEUED} WHERE queue.message_id = ?", (message_id,)):
                return Queued(**row)
            return _insert(database, message.conversation_id, message_id=message_id)

    def queued(self) -> list[Queued]:
        """What waits, in the order in which it will be sent; not what is being answered now."""
        with self._read() as database:
            return [Queued(**row) for row in database.query(f"{SELECT_QUEUED} WHERE {WAITING} ORDER BY queue.key")]

    def next_queued(self, *, verify: bool = True) -> Queued | None:
        """What is to be sent first, in a conversation in which no answer is being written.

        `verify` False: of the prompts, and of the answers that were cut off and hold nothing that is only drafted.
        """
        cut = "answer.status != 'done' AND instr(answer.provenance, x'00') = 0"
        kinds = "" if verify else f"AND (queue.message_id IS NULL OR {cut})"
        with self._read() as database:
            rows = database.query(
                f"{SELECT_QUEUED} WHERE {WAITING} AND {TIP_FINISHED} {kinds} ORDER BY queue.key LIMIT 1"
            )
            return next((Queued(**row) for row in rows), None)

    def edit_queued(self, queued_id: str, text: str) -> None:
        """Replaces the text of a prompt that was not sent yet. Raises `NotFound`."""
        with self._write() as database:
            if _row(database, queued_id)["message_id"] is not None:
                raise NotFound(f"{queued_id} in the queue is no prompt, or was sent already; nothing can change it.")
            database.execute("UPDATE queue SET text = ? WHERE id = ?", (well_formed(text), queued_id))

    def unqueue(self, queued_id: str) -> Queued:
        """Takes it out; a conversation that was begun for it and has nothing else goes with it. Raises `NotFound`."""
        with self._write() as database:
            queued = Queued(**_row(database, queued_id))
            database.execute("DELETE FROM queue WHERE id = ?", (queued_id,))
            database.execute(
                """
                DELETE FROM conversations WHERE id = ?
                AND NOT EXISTS (SELECT 1 FROM messages WHERE conversation_id = conversations.id)
                AND NOT EXISTS (SELECT 1 FROM queue WHERE conversation_id = conversations.id)
                """,
                (queued.conversation_id,),
            )
            return queued

    def take(self, queued_id: str) -> Message | None:
        """Stores a queued prompt as a question with its pending answer, which is returned and is now what is queued.

        None where it is no longer there to be sent: somebody was faster.
        """
        with self._write() as database:
            condition = f"{WAITING} AND {TIP_FINISHED} AND queue.id = ? AND queue.message_id IS NULL"
            row = next(database.query(f"{SELECT_QUEUED} WHERE {condition}", (queued_id,)), None)
            if row is None:
                return None
            conversation = find_conversation(database, row["conversation_id"])
            answer = insert_question(
                database, conversation.id, row["text"], parent_id=conversation.tip_id, owner=self._owner.claim()
            )
            database.execute("UPDATE queue SET text = NULL, message_id = ? WHERE id = ?", (answer.id, queued_id))
            return answer

    def defer(self, message_id: str) -> Queued | None:
        """Makes a question whose answer has not begun a prompt that waits, in its place in the queue if it had one.

        The reverse of `take`. None where the question is another wording of one that was asked, or is not what the
        conversation ends with: it stays where it is. Raises `NotFound`.
        """
        with self._write() as database:
            answer = find_message(database, message_id)
            question = find_message(database, str(answer.parent_id))
            conversation = find_conversation(database, answer.conversation_id)
            (beside,) = database.execute(
                """
                SELECT EXISTS (
                    SELECT 1 FROM messages WHERE conversation_id = ? AND id NOT IN (?, ?)
                    AND (parent_id IS ? OR parent_id IN (?, ?))
                )
                """,
                (conversation.id, question.id, answer.id, question.parent_id, question.id, answer.id),
            ).fetchone()
            if beside or conversation.tip_id != answer.id:
                return None
            database.execute("UPDATE conversations SET tip_id = ? WHERE id = ?", (question.parent_id, conversation.id))
            placed = database.execute("SELECT id FROM queue WHERE message_id = ?", (answer.id,)).fetchone()
            if placed is not None:
                database.execute(
                    "UPDATE queue SET text = ?, message_id = NULL, answer_id = NULL WHERE id = ?",
                    (question.text, placed[0]),
                )
            database.execute("DELETE FROM messages WHERE id = ?", (answer.id,))
            database.execute("DELETE FROM messages WHERE id = ?", (question.id,))
            if placed is None:
                return _insert(database, conversation.id, text=question.text)
            return Queued(**_row(database, placed[0]))

    def add_beside(self, message_id: str) -> Message | None:
        """A pending answer beside a finished one, which stays the conversation's tip; its statistics say which.

        None where somebody is at work on either already. Raises `NotFound`.
        """
        with self._write() as database:
            message = find_message(database, message_id)
            taken = database.execute(
                """
                SELECT 1 FROM messages LEFT JOIN queue ON queue.message_id = messages.id
                LEFT JOIN messages AS beside ON beside.id = queue.answer_id
                WHERE messages.id = ? AND (messages.owner IS NOT NULL OR beside.owner IS NOT NULL)
                """,
                (message_id,),
            ).fetchone()
            if taken:
                return None
            beside = insert_message(
                database,
                message.conversation_id,
                message.role,
                "",
                parent_id=message.parent_id,
                status="pending",
                owner=self._owner.claim(),
                stats={"verifies": message_id},
                tip=False,
            )
            database.execute("UPDATE queue SET answer_id = ? WHERE message_id = ?", (beside.id, message_id))
            return beside


def _insert(
    database: Sqlite, conversation_id: str, *, text: str | None = None, message_id: str | None = None
) -> Queued:
    queued_id, created = new_id(), now()
    database.execute(
        "INSERT INTO queue (id, conversation_id, text, message_id, created) VALUES (?, ?, ?, ?, ?)",
        (queued_id, conversation_id, text, message_id, created),
    )
    database.execute("UPDATE conversations SET updated = ? WHERE id = ?", (created, conversation_id))
    return Queued(**_row(database, queued_id))


def _row(database: Sqlite, queued_id: str) -> Mapping[str, Any]:
    for row in database.query(f"{SELECT_QUEUED} WHERE {IN_VIEW} AND queue.id = ?", (queued_id,)):
        return row
    raise NotFound(f"There is no {queued_id} in the queue; `outrider queue` lists what waits.")
