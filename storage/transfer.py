"""Reads whole conversations for an export, and stores them for an import.

Messages never change, so two states of one conversation are merged by adding what is missing: messages added here in
the meantime stay, and importing a file twice changes nothing. If an id is already in use by something else, the whole
conversation gets ids that are computed from its content, references included. So even then a second import finds the
first.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import msgspec

from storage.attachments import insert_attachments, named_well
from storage.database import Database
from storage.queue import IN_VIEW, SELECT_QUEUED, Queued, queued_from
from storage.records import (
    SELECT_CONVERSATIONS,
    SELECT_MESSAGES,
    Conversation,
    Message,
    conversation_from,
    message_from,
)
from storage.rows import (
    find_conversation,
    imported_place,
    insert_conversation,
    insert_messages,
    messages_of,
    new_id,
    with_attachments,
)
from storage.sqlite import Sqlite
from storage.words import well_formed


@dataclass(frozen=True)
class WholeConversation:
    """One conversation with everything in it."""

    conversation: Conversation
    messages: tuple[Message, ...]
    """The messages of every branch, oldest first, parents before their children."""
    queue: tuple[Queued, ...]
    """Queue entries, in order."""


@dataclass(frozen=True)
class PutResult:
    """The result of storing a conversation."""

    conversation_id: str
    outcome: Literal["new", "added", "same"]
    """'new': it was not there. 'added': some of its messages were missing or deleted. 'same': nothing was missing."""
    messages: int
    """How many messages were added or restored."""
    queued: tuple[str, ...]
    """Ids of the entries that were queued, in order. Only a new conversation brings its queue, because the entries of
    an older state of a known one may be answered by now."""


class Transfer:
    """Reads and writes whole conversations."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def whole(self, conversation_id: str) -> WholeConversation:
        """A snapshot of the conversation, without deleted messages. Raises `NotFound`."""
        with self._database.read() as sql:
            sql.execute("BEGIN")  # One snapshot, even while another process writes.
            try:
                conversation = find_conversation(sql, conversation_id)
                messages = messages_of(sql, conversation_id)
                queue = sql.query(
                    f"{SELECT_QUEUED} WHERE queue.conversation_id = ? AND {IN_VIEW} ORDER BY queue.key",
                    (conversation_id,),
                )
                return WholeConversation(conversation, tuple(messages), tuple(queued_from(sql, queue)))
            finally:
                sql.execute("COMMIT")

    def put(self, whole: WholeConversation, *, copy: bool = False) -> PutResult:
        """Stores a conversation in one transaction, or adds messages that are missing or in the bin.

        Parents must come before their children, and no reference may lead out of `whole`. An answer that was being
        written when it was read ends as 'stopped'. `copy` stores it under new ids in any case. The title, the pin and
        the shown branch of a known conversation stay, unless `whole` continues the shown branch: then its tip is shown.
        """
        whole = _well_formed(whole)
        with self._database.write() as sql:
            if copy and _known(sql, whole.conversation.id) is not None:
                whole = replace(whole, queue=())  # The original is already queued.
            if copy or not _fits(sql, whole):
                whole = _renamed(whole, secrets.token_bytes(16) if copy else _digest(whole))
            conversation = whole.conversation
            known = _known(sql, conversation.id)
            if known is None:
                insert_conversation(sql, conversation, imported=True)
                insert_messages(sql, whole.messages)
                sql.execute("UPDATE conversations SET tip_id = ? WHERE id = ?", (conversation.tip_id, conversation.id))
                queued = _enqueue(sql, whole.queue)
                return PutResult(conversation.id, "new", len(whole.messages), queued)
            from_bin, restored = _restore(sql, whole)
            rows = sql.execute("SELECT id FROM messages WHERE conversation_id = ?", (known.id,))
            here = {message_id for (message_id,) in rows}
            missing = [message for message in whole.messages if message.id not in here]
            if not missing and not restored and not from_bin:
                return PutResult(known.id, "same", 0, ())
            insert_messages(sql, missing)
            sql.execute(
                "UPDATE conversations SET tip_id = ?, updated = max(updated, ?), written = max(written, ?) "
                "WHERE id = ?",
                (_later_tip(known, whole), conversation.updated, imported_place(conversation.updated), known.id),
            )
            return PutResult(known.id, "added", len(missing) + restored, ())


def _restore(sql: Sqlite, whole: WholeConversation) -> tuple[bool, int]:
    """Restores what `whole` has from the bin.

    Returns whether the conversation was there, and how many of its messages.
    """
    before = sql.execute(
        "SELECT id FROM messages WHERE conversation_id = ? AND deleted IS NOT NULL", (whole.conversation.id,)
    ).fetchall()
    updated = sql.execute(
        "UPDATE conversations SET deleted = NULL WHERE id = ? AND deleted IS NOT NULL", (whole.conversation.id,)
    )
    hidden = {message_id for (message_id,) in before} & {message.id for message in whole.messages}
    for message_id in hidden:
        sql.execute("UPDATE messages SET deleted = NULL WHERE id = ?", (message_id,))
    return updated.rowcount > 0, len(hidden)


def _known(sql: Sqlite, conversation_id: str) -> Conversation | None:
    rows = sql.query(f"{SELECT_CONVERSATIONS} WHERE id = ?", (conversation_id,))
    return next(map(conversation_from, rows), None)


def _fits(sql: Sqlite, whole: WholeConversation) -> bool:
    """True if each id of `whole` is free here or names the same thing."""
    shared = False
    for message in whole.messages:
        row = next(sql.query(f"{SELECT_MESSAGES} WHERE messages.id = ?", (message.id,)), None)
        if row is not None:
            if not _same(with_attachments(sql, [message_from(row)])[0], message):
                return False
            shared = True
    known = _known(sql, whole.conversation.id)
    return shared or known is None or known.created == whole.conversation.created


def _same(here: Message, there: Message) -> bool:
    place = (here.conversation_id, here.parent_id, here.role)
    if place != (there.conversation_id, there.parent_id, there.role):
        return False
    if not (here.finished and there.finished):
        return True  # One of the two was read while it was being written.
    if here.attachments != there.attachments or here.calls != there.calls:
        return False
    return (here.text, here.tokens, here.provenance) == (there.text, there.tokens, there.provenance)


def _later_tip(here: Conversation, whole: WholeConversation) -> str | None:
    """The tip of `whole` if that continues the branch shown here, else the current tip."""
    parents = {message.id: message.parent_id for message in whole.messages}
    at = whole.conversation.tip_id
    while at is not None and at != here.tip_id:
        at = parents[at]
    return whole.conversation.tip_id if at == here.tip_id else here.tip_id


def _enqueue(sql: Sqlite, queue: Iterable[Queued]) -> tuple[str, ...]:
    ids: list[str] = []
    for queued in queue:
        taken = sql.execute("SELECT 1 FROM queue WHERE id = ?", (queued.id,)).fetchone()
        ids.append(new_id() if taken else queued.id)
        sql.execute(
            "INSERT INTO queue (id, conversation_id, text, message_id, created) VALUES (?, ?, ?, ?, ?)",
            (
                ids[-1],
                queued.conversation_id,
                queued.text if queued.message_id is None else None,
                queued.message_id,
                queued.created,
            ),
        )
        insert_attachments(sql, "queue_id", ids[-1], queued.attachments)
    return tuple(ids)


def _well_formed(whole: WholeConversation) -> WholeConversation:
    return WholeConversation(
        replace(whole.conversation, title=well_formed(whole.conversation.title)),
        tuple(
            replace(
                message,
                text=well_formed(message.text),
                reasoning=well_formed(message.reasoning),
                attachments=tuple(map(named_well, message.attachments)),
            )
            for message in whole.messages
        ),
        tuple(
            replace(queued, text=well_formed(queued.text), attachments=tuple(map(named_well, queued.attachments)))
            for queued in whole.queue
        ),
    )


def _digest(whole: WholeConversation) -> bytes:
    content = [whole.conversation.id, whole.conversation.created] + [
        (message.id, message.parent_id, message.role, message.text, message.tokens, message.provenance)
        for message in whole.messages
    ]
    files = [message.attachments for message in whole.messages if message.attachments]
    return hashlib.blake2b(msgspec.json.encode([content, files] if files else content), digest_size=16).digest()


def _renamed(whole: WholeConversation, key: bytes) -> WholeConversation:
    """The conversation with new ids, computed by `key`."""

    def new(old: str) -> str:
        return hashlib.blake2b(old.encode(), digest_size=8, key=key).hexdigest()

    ids = {message.id: new(message.id) for message in whole.messages}

    conversation = replace(
        whole.conversation,
        id=new(whole.conversation.id),
        tip_id=None if whole.conversation.tip_id is None else ids[whole.conversation.tip_id],
    )
    messages = (
        replace(
            message,
            id=ids[message.id],
            conversation_id=conversation.id,
            parent_id=None if message.parent_id is None else ids[message.parent_id],
            verifies=_followed(message.verifies, ids),
            resumes=_followed(message.resumes, ids),
        )
        for message in whole.messages
    )
    queue = (
        replace(
            queued,
            id=new(queued.id),
            conversation_id=conversation.id,
            message_id=None if queued.message_id is None else ids[queued.message_id],
        )
        for queued in whole.queue
    )
    return WholeConversation(conversation, tuple(messages), tuple(queue))


def _followed(old: str | None, ids: Mapping[str, str]) -> str | None:
    """The new id of a related message, or its old id if it is no longer in the conversation."""
    return None if old is None else ids.get(old, old)
