"""Full-text search over everything that was said, in every branch."""

from __future__ import annotations

from typing import NamedTuple

from storage.database import Database
from storage.messages import MESSAGE_COLUMNS, Message, message_from, well_formed

SNIPPET_TOKENS = 16


class Hit(NamedTuple):
    message: Message
    snippet: str
    """The part of its text around the words, with an ellipsis where it was cut."""


class Search(Database):
    def search(self, words: str, limit: int = 50) -> list[Hit]:
        """Finished messages that contain all the words, best match first.

        English endings are ignored ("unpacking" finds "unpack"), and the last word may be the beginning of one.
        """
        if not (query := _quoted(words)):
            return []
        with self._read() as database:
            # Ordered by nothing but rank: then FTS5 makes snippets of the rows within the limit only.
            rows = database.query(
                f"""
                SELECT {MESSAGE_COLUMNS}, snippet(messages_fts, 0, '', '', '…', {SNIPPET_TOKENS}) AS snippet
                FROM messages_fts
                JOIN messages ON messages.key = messages_fts.rowid
                LEFT JOIN partials ON partials.message_id = messages.id
                WHERE messages_fts MATCH ? ORDER BY messages_fts.rank LIMIT ?
                """,
                (query, limit),
            )
            return [Hit(message_from(row), row["snippet"]) for row in rows]


def _quoted(words: str) -> str:
    """An FTS5 query in which each word is a quoted string, so that nothing a person types is query syntax.

    FTS5 reads its query up to the first NUL, and a quote inside a string is written twice.
    """
    strings = [word.replace('"', '""') for word in well_formed(words).replace("\0", " ").split()]
    return " ".join(f'"{string}"' for string in strings) + "*" if strings else ""
