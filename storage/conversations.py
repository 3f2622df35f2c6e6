"""Conversations and their messages: saved before anything is sent, and never overwritten.

Editing, regenerating and branching add a message beside the old one and move the conversation's tip; which of them
are seen is told in `storage/branches.py`. The text of an answer that is being written goes to the side table
`partials` once a round, and into its message, which is indexed for search, once at the end: a checkpoint must not pay
for the index each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import msgspec

from storage.database import AlreadyFinished, Database, NotFound
from storage.messages import (
    SELECT_CONVERSATIONS,
    SELECT_MESSAGES,
    Conversation,
    FinalStatus,
    Message,
    Role,
    Stats,
    Status,
    conversation_from,
    message_from,
    pack_provenance,
    pack_tokens,
    well_formed,
)
from storage.rows import find_conversation, find_message, insert_message, insert_question, new_id, now
from storage.sqlite import Sqlite
from storage.words import words

CHECKPOINT_MILLISECONDS = 500
"""Longest wait for others; with short naps a turn comes within 150."""


class Conversations(Database):
    # ---- conversations ------------------------------------------------------------------------------------------

    def create_conversation(self, title: str = "") -> Conversation:
        created = now()
        conversation = Conversation(new_id(), well_formed(title), None, created=created, updated=created)
        with self._write() as database:
            database.execute(
                "INSERT INTO conversations (id, title, words, created, updated) VALUES (?, ?, ?, ?, ?)",
                (
                    conversation.id,
                    conversation.title,
                    words(conversation.title),
                    conversation.created,
                    conversation.updated,
                ),
            )
        return conversation

    def conversations(self) -> list[Conversation]:
        """All of them, pinned ones first, then the one that was last written to."""
        with self._read() as database:
            rows = database.query(
                f"{SELECT_CONVERSATIONS} WHERE deleted IS NULL ORDER BY pinned DESC, updated DESC, key DESC"
            )
            return [conversation_from(row) for row in rows]

    def recent_conversations(self, most: int) -> list[Conversation]:
        """Those that were last written to, the last one first, whichever are pinned."""
        with self._read() as database:
            rows = database.query(
                f"{SELECT_CONVERSATIONS} WHERE deleted IS NULL ORDER BY updated DESC, key DESC LIMIT ?", (most,)
            )
            return [conversation_from(row) for row in rows]

    def conversation(self, conversation_id: str) -> Conversation:
        """Raises `NotFound`."""
        with self._read() as database:
            return find_conversation(database, conversation_id)

    def rename(self, conversation_id: str, title: str) -> None:
        """Raises `NotFound`."""
        with self._write() as database:
            find_conversation(database, conversation_id)
            database.execute(
                "UPDATE conversations SET title = ?, words = ? WHERE id = ?",
                (well_formed(title), words(well_formed(title)), conversation_id),
            )

    def pin(self, conversation_id: str, pinned: bool) -> None:
        """Keeps it before the others, or not any more. Raises `NotFound`."""
        with self._write() as database:
            find_conversation(database, conversation_id)
            database.execute("UPDATE conversations SET pinned = ? WHERE id = ?", (pinned, conversation_id))

    # ---- messages -----------------------------------------------------------------------------------------------

    def add_message(
        self, conversation_id: str, role: Role, text: str, *, parent_id: str | None, status: Status
    ) -> Message:
        """Stores a message after `parent_id`, beside any that are there already, and makes it the tip.

        A pending or streaming message belongs to this store until `finish`. Raises `NotFound`.
        """
        with self._write() as database:
            find_conversation(database, conversation_id)
            if parent_id is not None:
                find_message(database, parent_id, conversation_id)
            owner = None if status in get_args(FinalStatus) else self._owner.claim()
            return insert_message(
                database, conversation_id, role, text, parent_id=parent_id, status=status, owner=owner
            )

    def ask(self, conversation_id: str, text: str, *, parent_id: str | None) -> Message:
        """Stores a question after `parent_id`, and a pending answer to it, which is returned and is now the tip.

        Raises `NotFound`.
        """
        with self._write() as database:
            find_conversation(database, conversation_id)
            if parent_id is not None:
                find_message(database, parent_id, conversation_id)
            return insert_question(database, conversation_id, text, parent_id=parent_id, owner=self._owner.claim())

    def resume(self, message_id: str) -> Message:
        """A pending answer beside one that was cut off, and beginning with all of it; it is now the tip.

        Its statistics say which one it `resumes`. Raises `NotFound`.
        """
        with self._write() as database:
            cut = find_message(database, message_id)
            resumed = insert_message(
                database,
                cut.conversation_id,
                cut.role,
                "",
                parent_id=cut.parent_id,
                status="pending",
                owner=self._owner.claim(),
                stats={"resumes": message_id},
            )
            _save_partial(database, resumed.id, cut.tokens, cut.provenance, cut.text)
            return find_message(database, resumed.id)

    def message(self, message_id: str) -> Message:
        """Raises `NotFound`."""
        with self._read() as database:
            return find_message(database, message_id)

    def messages(self, conversation_id: str) -> list[Message]:
        """Every branch, oldest first, so that parents come before their children. Raises `NotFound`."""
        with self._read() as database:
            find_conversation(database, conversation_id)
            rows = database.query(
                f"""
                {SELECT_MESSAGES} WHERE messages.conversation_id = ? AND messages.deleted IS NULL ORDER BY messages.key
                """,
                (conversation_id,),
            )
            return [message_from(row) for row in rows]

    def recent_answers(self, most: int) -> list[Message]:
        """Finished answers that have tokens, in all conversations, the newest first, until they have `most` tokens."""
        answers: list[Message] = []
        with self._read() as database:
            rows = database.query(
                f"""
                {SELECT_MESSAGES} WHERE messages.role = 'assistant' AND messages.owner IS NULL
                AND messages.tokens != x'' AND messages.deleted IS NULL ORDER BY messages.key DESC
                """
            )
            while most > 0 and (row := next(rows, None)) is not None:
                answers.append(message_from(row))
                most -= len(answers[-1].tokens)
            del rows  # A cursor that stays open would keep the log from being written back.
        return answers

    # ---- an answer while it is written --------------------------------------------------------------------------

    def checkpoint(self, message_id: str, tokens: Sequence[int], provenance: Sequence[bool], text: str) -> None:
        """Saves the whole answer so far, once a round; what a crash can lose is what came after.

        One that was deleted meanwhile is still saved. Raises `NotFound` where the conversation was erased,
        `AlreadyFinished`, and soon `StorageBusy`: the next one saves it all.
        """
        with self._write(CHECKPOINT_MILLISECONDS) as database:
            if _unfinished(database, message_id) == "pending":
                database.execute("UPDATE messages SET status = 'streaming' WHERE id = ?", (message_id,))
            _save_partial(database, message_id, tokens, provenance, text)

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
    ) -> None:
        """Makes the answer final and searchable, and drops its side row. Raises `NotFound`, `AlreadyFinished`.

        `settles`: the answer, this one or one beside it, that nothing waits for any more; it leaves the queue. Where it
        is the conversation's tip and this one is done, this one takes its place, unless it was deleted.
        """
        packed = (pack_tokens(tokens), pack_provenance(provenance), msgspec.json.encode(stats).decode())
        with self._write() as database:
            _unfinished(database, message_id)
            _settle(database, message_id, well_formed(text), *packed, status)
            if settles is not None:
                database.execute("DELETE FROM queue WHERE message_id = ?", (settles,))
                if status == "done":
                    database.execute(
                        """
                        UPDATE conversations SET tip_id = messages.id FROM messages
                        WHERE tip_id = ? AND messages.id = ? AND messages.deleted IS NULL
                        """,
                        (settles, message_id),
                    )

    def recover(self) -> list[Message]:
        """Ends as 'stopped' every message that a dead process left unfinished, with what its last checkpoint held.

        A message that a live process is still writing, in this program or another, stays as it is.
        """
        with self._write() as database:
            living = self._owner.living()
            orphans = [
                row["id"]
                for row in database.query("SELECT id, owner FROM messages WHERE owner IS NOT NULL ORDER BY key")
                if row["owner"] not in living
            ]
            for message_id in orphans:
                row = next(database.query(f"{SELECT_MESSAGES} WHERE messages.id = ?", (message_id,)))
                _settle(database, message_id, row["text"], row["tokens"], row["provenance"], row["stats"], "stopped")
            return [
                message_from(row)
                for message_id in orphans
                for row in database.query(f"{SELECT_MESSAGES} WHERE messages.id = ?", (message_id,))
            ]


def _save_partial(
    database: Sqlite, message_id: str, tokens: Sequence[int], provenance: Sequence[bool], text: str
) -> None:
    database.execute(
        """
        INSERT INTO partials (message_id, text, tokens, provenance) VALUES (?, ?, ?, ?)
        ON CONFLICT (message_id) DO UPDATE
        SET text = excluded.text, tokens = excluded.tokens, provenance = excluded.provenance
        """,
        (message_id, well_formed(text), pack_tokens(tokens), pack_provenance(provenance)),
    )


def _settle(
    database: Sqlite,
    message_id: str,
    text: str,
    tokens: bytes,
    provenance: bytes,
    stats: str,
    status: FinalStatus,
) -> None:
    database.execute(
        """
        UPDATE messages SET text = ?, words = ?, tokens = ?, provenance = ?, stats = ?, status = ?, owner = NULL
        WHERE id = ?
        """,
        (text, words(text), tokens, provenance, stats, status, message_id),
    )
    database.execute("DELETE FROM partials WHERE message_id = ?", (message_id,))
    database.execute(
        "UPDATE conversations SET updated = ? WHERE id = (SELECT conversation_id FROM messages WHERE id = ?)",
        (now(), message_id),
    )


def _unfinished(database: Sqlite, message_id: str) -> Status:
    """The status of a message that may still change."""
    row = database.execute("SELECT status, owner FROM messages WHERE id = ?", (message_id,)).fetchone()
    if row is None:
        raise NotFound(f"There is no message {message_id}; its conversation may have been deleted.")
    status: Status = row[0]
    if row[1] is None:
        raise AlreadyFinished(f"Message {message_id} is {status} and cannot change any more; add one beside it.")
    return status
