"""Conversations: create, list, name, pin and tag them. Their messages are in `storage/messages.py`."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from storage.choices import NONE, Choices, pack_choices
from storage.database import Database
from storage.errors import NotFound, TooManyTags
from storage.records import SELECT_CONVERSATIONS, Conversation, conversation_from
from storage.rows import find_by_beginning, find_conversation, insert_conversation, new_id, now
from storage.sqlite import Sqlite
from storage.tags import MOST_TAGS, tag_from, tags_from
from storage.words import well_formed, words


class Conversations:
    """The conversations that are not in the bin."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, title: str = "", choices: Choices = NONE) -> Conversation:
        created = now()
        conversation = Conversation(
            new_id(), well_formed(title), None, created=created, updated=created, choices=choices
        )
        with self._database.write() as sql:
            insert_conversation(sql, conversation)
        return conversation

    def all(self) -> list[Conversation]:
        """All conversations: pinned ones first, then the most recently written."""
        with self._database.read() as sql:
            rows = sql.query(
                f"{SELECT_CONVERSATIONS} WHERE deleted IS NULL ORDER BY pinned DESC, written DESC, key DESC"
            )
            return [conversation_from(row) for row in rows]

    def recent(self, most: int) -> list[Conversation]:
        """The `most` most recently written conversations, newest first, pinned or not."""
        with self._database.read() as sql:
            rows = sql.query(
                f"{SELECT_CONVERSATIONS} WHERE deleted IS NULL ORDER BY written DESC, key DESC LIMIT ?", (most,)
            )
            return [conversation_from(row) for row in rows]

    def get(self, conversation_id: str) -> Conversation:
        """Raises `NotFound`."""
        with self._database.read() as sql:
            return find_conversation(sql, conversation_id)

    def find(self, beginning: str) -> Conversation:
        """The conversation whose id begins with this text. Raises `NotFound`, also if there are several."""
        with self._database.read() as sql:
            return find_by_beginning(sql, beginning)

    def to_continue(self, conversation_id: str | None, *, last: bool) -> str | None:
        """The id of the conversation that a command continues, or None to start a new one.

        `conversation_id`: the beginning of its id. Raises `NotFound` if there is no such conversation.
        """
        if conversation_id is not None:
            return self.find(conversation_id).id
        if not last:
            return None
        for newest in self.recent(1):
            return newest.id
        raise NotFound("There is no conversation to continue yet; ask without -c to begin one.")

    def rename(self, conversation_id: str, title: str) -> None:
        """Raises `NotFound`."""
        with self._database.write() as sql:
            find_conversation(sql, conversation_id)
            sql.execute(
                "UPDATE conversations SET title = ?, words = ? WHERE id = ?",
                (well_formed(title), words(well_formed(title)), conversation_id),
            )

    def entitle(self, conversation_id: str, before: str, title: str) -> bool:
        """Replaces the title `before`. False if it has another one by now, or is gone."""
        with self._database.write() as sql:
            changed = sql.execute(
                "UPDATE conversations SET title = ?, words = ? WHERE id = ? AND title = ? AND deleted IS NULL",
                (well_formed(title), words(well_formed(title)), conversation_id, well_formed(before)),
            )
            return changed.rowcount == 1

    def pin(self, conversation_id: str, pinned: bool) -> None:
        """Pins or unpins the conversation. Raises `NotFound`."""
        with self._database.write() as sql:
            find_conversation(sql, conversation_id)
            sql.execute("UPDATE conversations SET pinned = ? WHERE id = ?", (pinned, conversation_id))

    def tag(self, conversation_id: str, add: Iterable[str] = (), remove: Iterable[str] = ()) -> tuple[str, ...]:
        """Adds tags and removes others; returns all that it has now. Raises `NotFound`, `TooManyTags`."""
        with self._database.write() as sql:
            choices = find_conversation(sql, conversation_id).choices
            wanted = {*choices.tags, *map(tag_from, add)} - {"", *map(tag_from, remove)}
            if len(wanted) > MOST_TAGS:
                raise TooManyTags(f"A conversation has at most {MOST_TAGS} tags; remove one first.")
            tags = tags_from(wanted)
            _set_choices(sql, conversation_id, msgspec.structs.replace(choices, tags=tags))
            return tags

    def set_origin(self, conversation_id: str, origin: str | None) -> None:
        """Records where the conversation was started. Its other choices stay. Raises `NotFound`.

        With `origin` None it is the person's own, so a search also finds messages that `put` stored in it without
        indexing them.
        """
        with self._database.write() as sql:
            choices = find_conversation(sql, conversation_id).choices
            if choices.origin == origin:
                return
            _set_choices(sql, conversation_id, msgspec.structs.replace(choices, origin=origin))
            if origin is None:
                unindexed = sql.execute(
                    "SELECT key, text FROM messages WHERE conversation_id = ? AND words = ''", (conversation_id,)
                ).fetchall()
                indexed = [(words(text), key) for key, text in unindexed]
                sql.executemany("UPDATE messages SET words = ? WHERE key = ?", indexed)

    def choose(self, conversation_id: str, choices: Choices) -> None:
        """Replaces the choices made for the conversation, except its tags and where it was started.

        Raises `NotFound`.
        """
        with self._database.write() as sql:
            stored = find_conversation(sql, conversation_id).choices
            _set_choices(sql, conversation_id, msgspec.structs.replace(choices, origin=stored.origin, tags=stored.tags))


def _set_choices(sql: Sqlite, conversation_id: str, choices: Choices) -> None:
    sql.execute("UPDATE conversations SET choices = ? WHERE id = ?", (pack_choices(choices), conversation_id))
