"""The drafter's memory of past conversations, so that one can be taken up again without a line to the verifier.

Memory is kept in chunks as it came over the wire, per conversation and memory format. It is a cache: the verifier can
always compute it again, so what was used least recently makes room when the budget is spent.
"""

from __future__ import annotations

from storage.database import Database
from storage.rows import find_conversation
from storage.sqlite import Sqlite


class Memories(Database):
    memory_budget: int = 256 << 20
    """Bytes for all conversations together; about 250,000 tokens at 1 KiB each."""

    def save_memory(self, conversation_id: str, digest: bytes, start: int, count: int, data: bytes) -> None:
        """Keeps the memory of tokens `start .. start + count`, in place of every chunk that covers one of them.

        `digest` names the memory format. Raises `NotFound` where there is no such conversation.
        """
        with self._write() as database:
            find_conversation(database, conversation_id)
            (key,) = database.execute(
                """
                INSERT INTO memories (conversation_id, digest, used) VALUES (?, ?, 0)
                ON CONFLICT (conversation_id, digest) DO UPDATE SET used = used RETURNING key
                """,
                (conversation_id, digest),
            ).fetchone()
            database.execute(
                "DELETE FROM memory_chunks WHERE memory_key = ? AND start < ? AND start + count > ?",
                (key, start + count, start),
            )
            database.execute(
                "INSERT INTO memory_chunks (memory_key, start, count, data) VALUES (?, ?, ?, ?)",
                (key, start, count, data),
            )
            _mark_used(database, conversation_id, digest)
            self._make_room(database)

    def load_memory(self, conversation_id: str, digest: bytes) -> list[tuple[int, int, bytes]]:
        """(start, count, data) of each chunk, by start; no two cover the same token. Empty where nothing is kept."""
        with self._write() as database:
            _mark_used(database, conversation_id, digest)
            return database.execute(
                """
                SELECT start, count, data FROM memory_chunks JOIN memories ON memories.key = memory_key
                WHERE conversation_id = ? AND digest = ? ORDER BY start
                """,
                (conversation_id, digest),
            ).fetchall()

    def forget_memory(self, conversation_id: str, length: int = 0) -> None:
        """Drops what reaches beyond the first `length` tokens: the conversation goes on differently from there."""
        with self._write() as database:
            database.execute(
                """
                DELETE FROM memory_chunks WHERE start + count > ?
                AND memory_key IN (SELECT key FROM memories WHERE conversation_id = ?)
                """,
                (length, conversation_id),
            )

    def _make_room(self, database: Sqlite) -> None:
        # Whole conversations go: memory with a gap in it is worth only what lies before the gap.
        (excess,) = database.execute("SELECT sum(bytes) - ? FROM memories", (self.memory_budget,)).fetchone()
        for key, size in database.execute("SELECT key, bytes FROM memories ORDER BY used").fetchall():
            if excess <= 0:
                break
            database.execute("DELETE FROM memories WHERE key = ?", (key,))
            excess -= size


def _mark_used(database: Sqlite, conversation_id: str, digest: bytes) -> None:
    # A count and not a time: the clock of a laptop may jump back.
    database.execute(
        """
        UPDATE memories SET used = (SELECT max(used) + 1 FROM memories) WHERE conversation_id = ? AND digest = ?
        """,
        (conversation_id, digest),
    )
