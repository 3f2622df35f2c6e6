"""The drafter's memory of past conversations, so that it can continue one while the verifier is out of reach.

Memory is kept in the chunks in which it arrived, per conversation and memory format. It is a cache, because the
verifier can compute it again: once the budget is spent, the least recently used memory is dropped.
"""

from __future__ import annotations

from storage.database import Database
from storage.rows import find_conversation
from storage.sqlite import Sqlite


class Memories:
    """The chunks of memory of all conversations, within one budget."""

    budget: int = 256 << 20
    """Bytes for all conversations together; about 250,000 tokens at 1 KiB each."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def save(self, conversation_id: str, digest: bytes, start: int, count: int, data: bytes) -> None:
        """Stores the memory of tokens `start .. start + count` and drops every chunk that overlaps them.

        `digest` names the memory format. Raises `NotFound` if there is no such conversation.
        """
        with self._database.write() as sql:
            find_conversation(sql, conversation_id)
            (key,) = sql.execute(
                """
                INSERT INTO memories (conversation_id, digest, used) VALUES (?, ?, 0)
                ON CONFLICT (conversation_id, digest) DO UPDATE SET used = used RETURNING key
                """,
                (conversation_id, digest),
            ).fetchone()
            sql.execute(
                "DELETE FROM memory_chunks WHERE memory_key = ? AND start < ? AND start + count > ?",
                (key, start + count, start),
            )
            sql.execute(
                "INSERT INTO memory_chunks (memory_key, start, count, data) VALUES (?, ?, ?, ?)",
                (key, start, count, data),
            )
            _mark_used(sql, conversation_id, digest)
            self._make_room(sql)

    def load(self, conversation_id: str, digest: bytes) -> list[tuple[int, int, bytes]]:
        """(start, count, data) of each chunk, by start; no two cover the same token."""
        with self._database.write() as sql:
            _mark_used(sql, conversation_id, digest)
            return sql.execute(
                """
                SELECT start, count, data FROM memory_chunks JOIN memories ON memories.key = memory_key
                WHERE conversation_id = ? AND digest = ? ORDER BY start
                """,
                (conversation_id, digest),
            ).fetchall()

    def last_used(self, conversation_id: str) -> bytes | None:
        """The digest of the memory that a conversation used last, or None if none is kept."""
        with self._database.read() as sql:
            found = sql.execute(
                "SELECT digest FROM memories WHERE conversation_id = ? ORDER BY used DESC LIMIT 1", (conversation_id,)
            ).fetchone()
        return None if found is None else bytes(found[0])

    def _make_room(self, sql: Sqlite) -> None:
        # Whole conversations are dropped, because memory is useful only up to its first gap.
        (excess,) = sql.execute("SELECT sum(bytes) - ? FROM memories", (self.budget,)).fetchone()
        for key, size in sql.execute("SELECT key, bytes FROM memories ORDER BY used").fetchall():
            if excess <= 0:
                break
            sql.execute("DELETE FROM memories WHERE key = ?", (key,))
            excess -= size


def _mark_used(sql: Sqlite, conversation_id: str, digest: bytes) -> None:
    # A counter, not a time: a laptop's clock may jump back.
    sql.execute(
        """
        UPDATE memories SET used = (SELECT max(used) + 1 FROM memories) WHERE conversation_id = ? AND digest = ?
        """,
        (conversation_id, digest),
    )
