"""Conversations and their messages: saved before anything is sent, and never overwritten.

Editing, regenerating and branching add a message beside the old one and move the conversation's tip. The text of an
answer that is being written goes to the side table `partials` once a round, and into its message, which is indexed for
search, once at the end: a checkpoint must not pay for the index each time.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import get_args

import msgspec
import sqlite_utils

from storage.database import AlreadyFinished, Database, NotFound
from storage.messages import (
    SELECT_MESSAGES,
    Conversation,
    FinalStatus,
    Message,
    Role,
    Stats,
    Status,
    message_from,
    pack_provenance,
    pack_tokens,
    unpack_tokens,
    well_formed,
)

SELECT_CONVERSATIONS = "SELECT id, title, tip_id, created, updated FROM conversations"


class Conversations(Database):
    # ---- conversations ------------------------------------------------------------------------------------------

    def create_conversation(self, title: str = "") -> Conversation:
        created = now()
        conversation = Conversation(new_id(), well_formed(title), None, created=created, updated=created)
        with self._write() as database:
            database.execute(
                "INSERT INTO conversations (id, title, created, updated) VALUES (?, ?, ?, ?)",
                (conversation.id, conversation.title, conversation.created, conversation.updated),
            )
        return conversation

    def conversations(self) -> list[Conversation]:
        """All of them, the one that was last written to first."""
        with self._read() as database:
            rows = database.query(f"{SELECT_CONVERSATIONS} ORDER BY updated DESC, key DESC")
            return [Conversation(**row) for row in rows]

    def conversation(self, conversation_id: str) -> Conversation:
        """Raises `NotFound`."""
        with self._read() as database:
            return find_conversation(database, conversation_id)

    def rename(self, conversation_id: str, title: str) -> None:
        """Raises `NotFound`."""
        with self._write() as database:
            find_conversation(database, conversation_id)
            database.execute("UPDATE conversations SET title = ? WHERE id = ?", (well_formed(title), conversation_id))

    def delete(self, conversation_id: str) -> None:
        """Removes the conversation with all its branches and memory. Raises `NotFound`."""
        with self._write() as database:
            find_conversation(database, conversation_id)
            database.execute("DELETE FROM conversations WHERE id = ?", (conversation_id,))

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

    def message(self, message_id: str) -> Message:
        """Raises `NotFound`."""
        with self._read() as database:
            return find_message(database, message_id)

    def messages(self, conversation_id: str) -> list[Message]:
        """Every branch, oldest first, so that parents come before their children. Raises `NotFound`."""
        with self._read() as database:
            find_conversation(database, conversation_id)
            rows = database.query(
                f"{SELECT_MESSAGES} WHERE messages.conversation_id = ? ORDER BY messages.key", (conversation_id,)
            )
            return [message_from(row) for row in rows]

    def recent_answers(self, most: int) -> list[tuple[int, ...]]:
        """Tokens of finished answers in all conversations, the newest answer first, `most` tokens at most."""
        answers: list[tuple[int, ...]] = []
        with self._read() as database:
            rows = database.execute(
                """
                SELECT tokens FROM messages
                WHERE role = 'assistant' AND owner IS NULL AND tokens != x'' ORDER BY key DESC
                """
            )
            while most > 0 and (row := rows.fetchone()) is not None:
                answers.append(unpack_tokens(row[0])[:most])
                most -= len(answers[-1])
            rows.close()
        return answers

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

    # ---- an answer while it is written --------------------------------------------------------------------------

    def checkpoint(self, message_id: str, tokens: Sequence[int], provenance: Sequence[bool], text: str) -> None:
        """Saves the whole answer so far, once a round; what a crash can lose is what came after.

        Raises `NotFound` where the conversation was deleted meanwhile, `AlreadyFinished`.
        """
        partial = (message_id, well_formed(text), pack_tokens(tokens), pack_provenance(provenance))
        with self._write() as database:
            if _unfinished(database, message_id) == "pending":
                database.execute("UPDATE messages SET status = 'streaming' WHERE id = ?", (message_id,))
            database.execute(
                """
                INSERT INTO partials (message_id, text, tokens, provenance) VALUES (?, ?, ?, ?)
                ON CONFLICT (message_id) DO UPDATE
                SET text = excluded.text, tokens = excluded.tokens, provenance = excluded.provenance
                """,
                partial,
            )

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
        is the conversation's tip and this one is done, this one takes its place.
        """
        packed = (pack_tokens(tokens), pack_provenance(provenance), msgspec.json.encode(stats).decode())
        with self._write() as database:
            _unfinished(database, message_id)
            _settle(database, message_id, well_formed(text), *packed, status)
            if settles is not None:
                database.execute("DELETE FROM queue WHERE message_id = ?", (settles,))
                if status == "done":
                    database.execute("UPDATE conversations SET tip_id = ? WHERE tip_id = ?", (message_id, settles))

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
            return [find_message(database, message_id) for message_id in orphans]


def _settle(
    database: sqlite_utils.Database,
    message_id: str,
    text: str,
    tokens: bytes,
    provenance: bytes,
    stats: str,
    status: FinalStatus,
) -> None:
    database.execute(
        """
        UPDATE messages SET text = ?, tokens = ?, provenance = ?, stats = ?, status = ?, owner = NULL WHERE id = ?
        """,
        (text, tokens, provenance, stats, status, message_id),
    )
    database.execute("DELETE FROM partials WHERE message_id = ?", (message_id,))
    database.execute(
        "UPDATE conversations SET updated = ? WHERE id = (SELECT conversation_id FROM messages WHERE id = ?)",
        (now(), message_id),
    )


def insert_message(
    database: sqlite_utils.Database,
    conversation_id: str,
    role: Role,
    text: str,
    *,
    parent_id: str | None,
    status: Status,
    owner: str | None,
    tip: bool = True,
) -> Message:
    """A new message inside the caller's transaction; `tip`: the shown branch ends with it from now on."""
    message_id, created = new_id(), now()
    database.execute(
        """
        INSERT INTO messages (id, conversation_id, parent_id, role, text, status, owner, created)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?)
        """,
        (message_id, conversation_id, parent_id, role, well_formed(text), status, owner, created),
    )
    database.execute(
        "UPDATE conversations SET tip_id = CASE WHEN ? THEN ? ELSE tip_id END, updated = ? WHERE id = ?",
        (tip, message_id, created, conversation_id),
    )
    return find_message(database, message_id)


def _branch(database: sqlite_utils.Database, tip_id: str | None) -> list[Message]:
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


def find_conversation(database: sqlite_utils.Database, conversation_id: str) -> Conversation:
    for row in database.query(f"{SELECT_CONVERSATIONS} WHERE id = ?", (conversation_id,)):
        return Conversation(**row)
    raise NotFound(f"There is no conversation {conversation_id}; `outrider history` lists them.")


def find_message(database: sqlite_utils.Database, message_id: str, conversation_id: str | None = None) -> Message:
    for row in database.query(f"{SELECT_MESSAGES} WHERE messages.id = ?", (message_id,)):
        if conversation_id in (None, row["conversation_id"]):
            return message_from(row)
    where = "" if conversation_id is None else f" in conversation {conversation_id}"
    raise NotFound(f"There is no message {message_id}{where}; its conversation may have been deleted.")


def _unfinished(database: sqlite_utils.Database, message_id: str) -> Status:
    """The status of a message that may still change."""
    row = database.execute("SELECT status, owner FROM messages WHERE id = ?", (message_id,)).fetchone()
    if row is None:
        raise NotFound(f"There is no message {message_id}; its conversation may have been deleted.")
    status: Status = row[0]
    if row[1] is None:
        raise AlreadyFinished(f"Message {message_id} is {status} and cannot change any more; add one beside it.")
    return status


def new_id() -> str:
    return secrets.token_hex(8)


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
