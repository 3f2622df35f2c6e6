"""Messages: saved before anything is sent, and never overwritten.

Editing, regenerating and branching add a message next to the old one and move the conversation's tip;
`storage/branches.py` knows which of them are shown. While an answer is being written, its text is saved to the side
table `partials`, once a round. It moves into the message, which is indexed for search, only at the end: updating the
index at each checkpoint would cost too much.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from storage.attachments import Attachment
from storage.calls import insert_calls, leave_unknown
from storage.database import Database
from storage.errors import AlreadyFinished, NotFound
from storage.records import (
    INTERRUPTED,
    SELECT_MESSAGES,
    FinalStatus,
    Message,
    Role,
    Stats,
    Status,
    message_from,
    pack_provenance,
    pack_stats,
    pack_tokens,
)
from storage.rows import (
    add_message,
    add_question,
    find_conversation,
    find_message,
    insert_messages,
    messages_of,
    new_message,
    note_written,
    now,
)
from storage.sqlite import Sqlite
from storage.usage import COUNTS
from storage.words import well_formed, words

CHECKPOINT_MILLISECONDS = 500
"""Longest wait of a checkpoint for other writers; with short sleeps its turn comes within 150 ms."""


class Messages:
    """Messages that are not deleted, and answers that are being written."""

    def __init__(self, database: Database) -> None:
        self._database = database

    # ---- read ---------------------------------------------------------------------------------------------------

    def get(self, message_id: str) -> Message:
        """Raises `NotFound`."""
        with self._database.read() as sql:
            return find_message(sql, message_id)

    def of(self, conversation_id: str) -> list[Message]:
        """All messages of a conversation, in every branch, oldest first: parents come before their children.

        Raises `NotFound`.
        """
        with self._database.read() as sql:
            find_conversation(sql, conversation_id)
            return messages_of(sql, conversation_id)

    def recent_answers(self, most: int) -> list[Message]:
        """Finished answers that have tokens, from all conversations, newest first, until they have `most` tokens."""
        answers: list[Message] = []
        with self._database.read() as sql:
            rows = sql.query(
                f"""
                {SELECT_MESSAGES} WHERE messages.role = 'assistant' AND messages.owner IS NULL
                AND messages.tokens != x'' AND messages.deleted IS NULL ORDER BY messages.key DESC
                """
            )
            while most > 0 and (row := next(rows, None)) is not None:
                answers.append(message_from(row))
                most -= len(answers[-1].tokens)
            del rows  # An open cursor would keep the log from being written back.
        return answers

    def asked(self, limit: int) -> list[str]:
        """The last `limit` questions of all conversations, oldest first.

        Only the last occurrence of a repeated question counts.
        """
        with self._database.read() as sql:
            rows = sql.execute(
                """
                SELECT text FROM messages WHERE role = 'user' AND text != '' AND deleted IS NULL AND NOT summary
                ORDER BY key DESC LIMIT ?
                """,
                (limit,),
            ).fetchall()
        latest = dict.fromkeys(row[0] for row in rows)
        return list(reversed(latest))

    @property
    def unfinished(self) -> bool:
        """Whether any answer is still being written, or was left unfinished when its program died."""
        with self._database.read() as sql:
            return sql.execute("SELECT 1 FROM messages WHERE owner IS NOT NULL LIMIT 1").fetchone() is not None

    # ---- add ----------------------------------------------------------------------------------------------------

    def add(self, conversation_id: str, role: Role, text: str, *, parent_id: str | None, status: Status) -> Message:
        """Stores a message after `parent_id`, next to any existing versions, and makes it the tip.

        A pending or streaming message belongs to this store until `finish`. Raises `NotFound`.
        """
        with self._database.write() as sql:
            _check_place(sql, conversation_id, parent_id)
            owner = self._database.owner.claim() if status in ("pending", "streaming") else None
            return add_message(sql, new_message(conversation_id, role, text, parent_id=parent_id, status=status), owner)

    def put(self, conversation_id: str, turns: Iterable[tuple[Role, str]]) -> str:
        """Stores messages from elsewhere as the beginning of a conversation; the last one becomes the tip.

        Returns the tip's id; empty if there were no messages. Indexing would take most of the time, so no search finds
        them until the conversation becomes the person's own (`Conversations.set_origin`). Raises `NotFound`.
        """
        messages: list[Message] = []
        with self._database.write() as sql:
            find_conversation(sql, conversation_id)
            for role, text in turns:
                parent_id = messages[-1].id if messages else None
                messages.append(new_message(conversation_id, role, text, parent_id=parent_id, status="done"))
            insert_messages(sql, messages, indexed=False)
            if messages:
                sql.execute("UPDATE conversations SET tip_id = ? WHERE id = ?", (messages[-1].id, conversation_id))
        return messages[-1].id if messages else ""

    def ask(
        self, conversation_id: str, text: str, *, parent_id: str | None, attachments: Sequence[Attachment] = ()
    ) -> Message:
        """Stores a question after `parent_id` and its pending answer, which is returned and becomes the tip.

        Raises `NotFound`.
        """
        with self._database.write() as sql:
            _check_place(sql, conversation_id, parent_id)
            owner = self._database.owner.claim()
            return add_question(sql, conversation_id, text, parent_id=parent_id, owner=owner, attachments=attachments)

    def resume(self, message_id: str, *, only_calls: bool = False) -> Message:
        """Stores a pending answer next to one that was cut off. It begins with that answer's text and becomes the tip.

        It has that answer's tool calls too, so none of them is asked for again. `only_calls`: it begins with these
        alone.

        Raises `NotFound`.
        """
        with self._database.write() as sql:
            cut = find_message(sql, message_id)
            resumed = self._beside(sql, cut, resumes=message_id)
            if only_calls:
                calls = tuple(replace(call, at=0) for call in cut.calls)
                cut = replace(cut, text="", tokens=(), provenance=(), stats={}, calls=calls)
            _save_partial(sql, resumed.id, cut.tokens, cut.provenance, cut.text)
            insert_calls(sql, resumed.id, cut.calls)
            leave_unknown(sql, resumed.id)
            stats = {name: value for name, value in cut.stats.items() if name not in COUNTS}  # They count once.
            sql.execute("UPDATE messages SET stats = ? WHERE id = ?", (pack_stats(stats), resumed.id))
            return find_message(sql, resumed.id)

    def verify(self, message_id: str) -> Message | None:
        """Stores a pending answer next to the finished one that it verifies. The finished one stays the tip.

        None if one of the two is being written already. Raises `NotFound`.
        """
        with self._database.write() as sql:
            message = find_message(sql, message_id)
            taken = sql.execute(
                """
                SELECT 1 FROM messages LEFT JOIN queue ON queue.message_id = messages.id
                LEFT JOIN messages AS beside ON beside.id = queue.answer_id
                WHERE messages.id = ? AND (messages.owner IS NOT NULL OR beside.owner IS NOT NULL)
                """,
                (message_id,),
            ).fetchone()
            if taken:
                return None
            beside = self._beside(sql, message, verifies=message_id)
            sql.execute("UPDATE queue SET answer_id = ? WHERE message_id = ?", (beside.id, message_id))
            return beside

    def _beside(
        self, sql: Sqlite, message: Message, *, verifies: str | None = None, resumes: str | None = None
    ) -> Message:
        """Adds a pending version of a message."""
        version = new_message(
            message.conversation_id,
            message.role,
            "",
            parent_id=message.parent_id,
            status="pending",
            verifies=verifies,
            resumes=resumes,
        )
        return add_message(sql, version, self._database.owner.claim())

    def written_elsewhere(self, message_id: str) -> bool:
        """Whether another program is writing an answer above this message."""
        with self._database.read() as sql:
            (written,) = sql.execute(
                """
                WITH RECURSIVE above (id) AS (
                    VALUES (?) UNION ALL SELECT parent_id FROM above JOIN messages USING (id)
                )
                SELECT EXISTS (SELECT 1 FROM messages JOIN above USING (id) WHERE owner != ? AND id != ?)
                """,
                (message_id, self._database.owner.name, message_id),
            ).fetchone()
            return bool(written)

    # ---- an answer while it is written --------------------------------------------------------------------------

    def checkpoint(
        self, message_id: str, tokens: Sequence[int], provenance: Sequence[bool], text: str, stats: Stats | None = None
    ) -> None:
        """Saves the whole answer so far, once a round; a crash loses only what came after.

        `stats`: its current statistics, if they have changed. An answer that was deleted meanwhile is still saved.
        Raises `NotFound` if its conversation was erased, `AlreadyFinished`, and `StorageBusy` after a short wait: the
        next checkpoint saves everything.
        """
        with self._database.write(CHECKPOINT_MILLISECONDS) as sql:
            if _unfinished(sql, message_id) == "pending":
                sql.execute("UPDATE messages SET status = 'streaming' WHERE id = ?", (message_id,))
            if stats is not None:
                sql.execute("UPDATE messages SET stats = ? WHERE id = ?", (pack_stats(stats), message_id))
            _save_partial(sql, message_id, tokens, provenance, text)

    def finish(
        self,
        message_id: str,
        tokens: Sequence[int],
        provenance: Sequence[bool],
        text: str,
        status: FinalStatus,
        stats: Stats,
        *,
        settles: str | None = None,
        reasoning: str = "",
    ) -> None:
        """Makes the answer final and searchable, and drops its side row. Raises `NotFound`, `AlreadyFinished`.

        `settles` names the answer that leaves the queue: this one or another version of it. If that is the
        conversation's tip and this one is done, this one becomes the tip instead, unless it was deleted. `reasoning`:
        the model's thoughts before its answer.
        """
        packed = (pack_tokens(tokens), pack_provenance(provenance), pack_stats(stats))
        with self._database.write() as sql:
            _unfinished(sql, message_id)
            _settle(sql, message_id, well_formed(text), *packed, status, well_formed(reasoning))
            if settles is not None:
                sql.execute("DELETE FROM queue WHERE message_id = ?", (settles,))
                if status == "done":
                    sql.execute(
                        """
                        UPDATE conversations SET tip_id = messages.id FROM messages
                        WHERE tip_id = ? AND messages.id = ? AND messages.deleted IS NULL
                        """,
                        (settles, message_id),
                    )

    def recover(self) -> list[str]:
        """Ends every message that a dead process left unfinished, with the text of its last checkpoint.

        Such a message becomes 'stopped' and interrupted. A message is left alone while the program that writes it still
        runs. Returns the ids of the messages that were ended.
        """
        with self._database.write() as sql:
            living = self._database.owner.living()
            orphans = [
                row["id"]
                for row in sql.query("SELECT id, owner FROM messages WHERE owner IS NOT NULL ORDER BY key")
                if row["owner"] not in living
            ]
            for message_id in orphans:
                row = next(sql.query(f"{SELECT_MESSAGES} WHERE messages.id = ?", (message_id,)))
                stats = pack_stats({**message_from(row).stats, "reason": INTERRUPTED})
                _settle(sql, message_id, row["text"], row["tokens"], row["provenance"], stats, "stopped")
                leave_unknown(sql, message_id)
            return orphans


def _check_place(sql: Sqlite, conversation_id: str, parent_id: str | None) -> None:
    """Raises `NotFound` if a message cannot follow `parent_id` in that conversation."""
    find_conversation(sql, conversation_id)
    if parent_id is not None:
        find_message(sql, parent_id, conversation_id)


def _save_partial(sql: Sqlite, message_id: str, tokens: Sequence[int], provenance: Sequence[bool], text: str) -> None:
    sql.execute(
        """
        INSERT INTO partials (message_id, text, tokens, provenance) VALUES (?, ?, ?, ?)
        ON CONFLICT (message_id) DO UPDATE
        SET text = excluded.text, tokens = excluded.tokens, provenance = excluded.provenance
        """,
        (message_id, well_formed(text), pack_tokens(tokens), pack_provenance(provenance)),
    )


def _settle(
    sql: Sqlite,
    message_id: str,
    text: str,
    tokens: bytes,
    provenance: bytes,
    stats: str,
    status: FinalStatus,
    reasoning: str = "",
) -> None:
    sql.execute(
        """
        UPDATE messages SET text = ?, words = ?, tokens = ?, provenance = ?, stats = ?, status = ?, reasoning = ?,
        owner = NULL WHERE id = ?
        """,
        (text, words(text), tokens, provenance, stats, status, reasoning, message_id),
    )
    sql.execute("DELETE FROM partials WHERE message_id = ?", (message_id,))
    (conversation_id,) = sql.execute("SELECT conversation_id FROM messages WHERE id = ?", (message_id,)).fetchone()
    note_written(sql, conversation_id, now())


def _unfinished(sql: Sqlite, message_id: str) -> Status:
    """The status of a message that may still change. Raises `NotFound`, `AlreadyFinished`."""
    row = sql.execute("SELECT status, owner FROM messages WHERE id = ?", (message_id,)).fetchone()
    if row is None:
        raise NotFound(f"There is no message {message_id}; its conversation may have been deleted.")
    status: Status = row[0]
    if row[1] is None:
        raise AlreadyFinished(
            f"Message {message_id} is {status} and cannot change any more; add another message instead."
        )
    return status
