"""Whole conversations, out of the database and into it as they were: what an export reads and an import writes.

Messages never change, so two states of one conversation are put together by adding what is missing: what was said
here in the meantime stays, and the same file read twice changes nothing. Where an id is taken by something else, the
whole conversation gets ids that are computed from its content, and every reference to them follows; so even then the
second time finds the first.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

import msgspec

from storage.database import Database
from storage.messages import (
    SELECT_CONVERSATIONS,
    SELECT_MESSAGES,
    Conversation,
    FinalStatus,
    Message,
    conversation_from,
    message_from,
    pack_provenance,
    pack_tokens,
    well_formed,
)
from storage.queue import IN_VIEW, SELECT_QUEUED, Queued
from storage.rows import find_conversation, new_id
from storage.sqlite import Sqlite
from storage.words import words


@dataclass(frozen=True)
class Whole:
    """One conversation with everything in it."""

    conversation: Conversation
    messages: tuple[Message, ...]
    """Of every branch, oldest first, parents before their children."""
    queue: tuple[Queued, ...]
    """What waits for the target, in its order."""


@dataclass(frozen=True)
class Put:
    """What became of a conversation that was put in."""

    conversation_id: str
    outcome: Literal["new", "added", "same"]
    """It was not there; some of its messages were not, or had been deleted; or all of it was."""
    messages: int
    """How many were added or brought back."""
    queued: tuple[str, ...]
    """Ids of what waits again, in its order. What an older state of a conversation waited for may be answered by now,
    so only a new one brings its queue."""
    renamed: bool
    """Its ids were taken by something else, or a copy was asked for."""


class Importing(Database):
    def whole(self, conversation_id: str) -> Whole:
        """As it is at one moment, whoever else writes, without what was deleted. Raises `NotFound`."""
        with self._read() as database:
            database.execute("BEGIN")
            try:
                conversation = find_conversation(database, conversation_id)
                messages = database.query(
                    f"{SELECT_MESSAGES} WHERE messages.conversation_id = ? AND messages.deleted IS NULL"
                    " ORDER BY messages.key",
                    (conversation_id,),
                )
                queue = database.query(
                    f"{SELECT_QUEUED} WHERE queue.conversation_id = ? AND {IN_VIEW} ORDER BY queue.key",
                    (conversation_id,),
                )
                return Whole(conversation, tuple(map(message_from, messages)), tuple(Queued(**row) for row in queue))
            finally:
                database.execute("COMMIT")

    def put(self, whole: Whole, *, copy: bool = False) -> Put:
        """Stores a conversation as it is, in one transaction, or adds to it what is missing here or in the bin.

        What was being written when it was read ends as 'stopped'. `copy`: under new ids, whatever is there.
        The title, and what was pinned or shown here, stay; but a shown branch that goes on in `whole` is followed.
        Parents come before their children, and no reference leads out of it.
        """
        whole = _well_formed(whole)
        with self._write() as database:
            if copy and _known(database, whole.conversation.id) is not None:
                whole = replace(whole, queue=())  # It waits once already.
            renamed = copy or not _fits(database, whole)
            if renamed:
                whole = _renamed(whole, secrets.token_bytes(16) if copy else _digest(whole))
            conversation = whole.conversation
            known = _known(database, conversation.id)
            if known is None:
                database.execute(
                    "INSERT INTO conversations (id, title, words, created, updated, pinned) VALUES (?, ?, ?, ?, ?, ?)",
                    (
                        conversation.id,
                        conversation.title,
                        words(conversation.title),
                        conversation.created,
                        conversation.updated,
                        conversation.pinned,
                    ),
                )
                _insert(database, whole.messages)
                database.execute(
                    "UPDATE conversations SET tip_id = ? WHERE id = ?", (conversation.tip_id, conversation.id)
                )
                queued = _enqueue(database, whole.queue)
                return Put(conversation.id, "new", len(whole.messages), queued, renamed)
            from_bin, restored = _restore(database, whole)
            rows = database.execute("SELECT id FROM messages WHERE conversation_id = ?", (known.id,))
            here = {message_id for (message_id,) in rows}
            missing = [message for message in whole.messages if message.id not in here]
            if not missing and not restored and not from_bin:
                return Put(known.id, "same", 0, (), renamed)
            _insert(database, missing)
            database.execute(
                "UPDATE conversations SET tip_id = ?, updated = max(updated, ?) WHERE id = ?",
                (_later_tip(known, whole), conversation.updated, known.id),
            )
            return Put(known.id, "added", len(missing) + restored, (), renamed)


def _restore(database: Sqlite, whole: Whole) -> tuple[bool, int]:
    """Takes out of the bin what `whole` has; whether the conversation was there, and how many of its messages."""
    before = database.execute(
        "SELECT id FROM messages WHERE conversation_id = ? AND deleted IS NOT NULL", (whole.conversation.id,)
    ).fetchall()
    updated = database.execute(
        "UPDATE conversations SET deleted = NULL WHERE id = ? AND deleted IS NOT NULL", (whole.conversation.id,)
    )
    hidden = {message_id for (message_id,) in before} & {message.id for message in whole.messages}
    for message_id in hidden:
        database.execute("UPDATE messages SET deleted = NULL WHERE id = ?", (message_id,))
    return updated.rowcount > 0, len(hidden)


def _known(database: Sqlite, conversation_id: str) -> Conversation | None:
    rows = database.query(f"{SELECT_CONVERSATIONS} WHERE id = ?", (conversation_id,))
    return next(map(conversation_from, rows), None)


def _fits(database: Sqlite, whole: Whole) -> bool:
    """Whether each of its ids is free here, or stands for the same thing."""
    shared = False
    for message in whole.messages:
        row = next(database.query(f"{SELECT_MESSAGES} WHERE messages.id = ?", (message.id,)), None)
        if row is not None:
            if not _same(message_from(row), message):
                return False
            shared = True
    known = _known(database, whole.conversation.id)
    return shared or known is None or known.created == whole.conversation.created


def _same(here: Message, there: Message) -> bool:
    place = (here.conversation_id, here.parent_id, here.role)
    if place != (there.conversation_id, there.parent_id, there.role):
        return False
    if not {here.status, there.status} <= set(get_args(FinalStatus)):
        return True  # One of the two was read while it was written.
    return (here.text, here.tokens, here.provenance) == (there.text, there.tokens, there.provenance)


def _later_tip(here: Conversation, whole: Whole) -> str | None:
    """The tip of `whole` where the branch that is shown here leads to it."""
    parents = {message.id: message.parent_id for message in whole.messages}
    at = whole.conversation.tip_id
    while at is not None and at != here.tip_id:
        at = parents[at]
    return whole.conversation.tip_id if at == here.tip_id else here.tip_id


def _insert(database: Sqlite, messages: Iterable[Message]) -> None:
    database.executemany(
        """
        INSERT INTO messages
            (id, conversation_id, parent_id, role, text, words, status, tokens, provenance, stats, created)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        """,
        (
            (
                message.id,
                message.conversation_id,
                message.parent_id,
                message.role,
                message.text,
                words(message.text),
                message.status if message.status in get_args(FinalStatus) else "stopped",
                pack_tokens(message.tokens),
                pack_provenance(message.provenance),
                msgspec.json.encode(message.stats).decode(),
                message.created,
            )
            for message in messages
        ),
    )


def _enqueue(database: Sqlite, queue: Iterable[Queued]) -> tuple[str, ...]:
    ids: list[str] = []
    for queued in queue:
        taken = database.execute("SELECT 1 FROM queue WHERE id = ?", (queued.id,)).fetchone()
        ids.append(new_id() if taken else queued.id)
        database.execute(
            "INSERT INTO queue (id, conversation_id, text, message_id, created) VALUES (?, ?, ?, ?, ?)",
            (
                ids[-1],
                queued.conversation_id,
                queued.text if queued.message_id is None else None,
                queued.message_id,
                queued.created,
            ),
        )
    return tuple(ids)


def _well_formed(whole: Whole) -> Whole:
    return Whole(
        replace(whole.conversation, title=well_formed(whole.conversation.title)),
        tuple(replace(message, text=well_formed(message.text)) for message in whole.messages),
        tuple(replace(queued, text=well_formed(queued.text)) for queued in whole.queue),
    )


def _digest(whole: Whole) -> bytes:
    content = [whole.conversation.id, whole.conversation.created] + [
        (message.id, message.parent_id, message.role, message.text, message.tokens, message.provenance)
        for message in whole.messages
    ]
    return hashlib.blake2b(msgspec.json.encode(content), digest_size=16).digest()


def _renamed(whole: Whole, key: bytes) -> Whole:
    """The same under other ids, which `key` decides; answers name one another in their statistics too."""

    def new(old: str) -> str:
        return hashlib.blake2b(old.encode(), digest_size=8, key=key).hexdigest()

    ids = {message.id: new(message.id) for message in whole.messages}

    def follow(stats: Mapping[str, float | int | str | None]) -> dict[str, float | int | str | None]:
        return {name: ids.get(value, value) if isinstance(value, str) else value for name, value in stats.items()}

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
            stats=follow(message.stats),
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
    return Whole(conversation, tuple(messages), tuple(queue))
