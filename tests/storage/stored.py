"""Short ways to put messages into a store and to look at them."""

from __future__ import annotations

from storage import Role, Store


def add(store: Store, conversation: str, text: str, parent: str | None = None, *, role: Role = "user") -> str:
    return store.messages.add(conversation, role, text, parent_id=parent, status="done").id


def said(store: Store, conversation: str) -> list[str]:
    return [message.text for message in store.branches.thread(conversation)]


def found(store: Store, words: str) -> list[str]:
    """The texts of the messages that a search finds, the best one first."""
    return [hit.message.text for hit in store.search.messages(words)]


def assert_sound(store: Store) -> None:
    """The search indexes hold what is visible and nothing else."""
    with store.database.read() as database:
        assert database.execute("PRAGMA foreign_key_check").fetchall() == []
        database.execute("INSERT INTO messages_fts (messages_fts, rank) VALUES ('integrity-check', 1)")
        database.execute("INSERT INTO titles_fts (titles_fts, rank) VALUES ('integrity-check', 1)")
