"""What the person has asked, in all conversations, to be recalled as one types."""

from __future__ import annotations

from storage.database import Database


class Asked(Database):
    def asked(self, limit: int) -> list[str]:
        """The texts of the last `limit` questions, oldest first, each once, where it was last asked."""
        with self._read() as database:
            rows = database.execute(
                """
                SELECT text FROM messages WHERE role = 'user' AND text != '' AND deleted IS NULL
                ORDER BY key DESC LIMIT ?
                """,
                (limit,),
            ).fetchall()
        latest = dict.fromkeys(row[0] for row in rows)
        return list(reversed(latest))
