"""Full-text search over titles and everything that was said, in every branch.

Search follows every letter that is typed, and the first letters of a word are in most messages: to weigh 50,000 of them
by BM25 takes 60 ms and more. So the newest matches are weighed only, which takes as long in a database of any size; a
search that finds fewer is exact. Each word costs as much again, so the more there are, the fewer matches are weighed;
of a text that was pasted the longest words are looked for, which are the rarest, too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import accumulate, takewhile
from typing import NamedTuple

from storage.database import Database
from storage.messages import (
    CONVERSATION_COLUMNS,
    MESSAGE_COLUMNS,
    Conversation,
    Message,
    conversation_from,
    message_from,
    well_formed,
)
from storage.words import shown
from storage.words import words as apart

SNIPPET_TOKENS = 16
WEIGHED = 2000
"""Messages, and titles, by one word: some 3 ms. By one that is a single letter so far it is a quarter, since that may
begin every second word of a long answer."""
MOST_WORDS = 12
"""That are looked for; one that is everywhere costs 4 ms. FTS5 takes `path/to/file` for three."""
MOST_LETTERS = 4096
"""Of what was typed or pasted."""
TITLE_WEIGHT = 10.0
_PARTS = re.compile(r"[^\W_]+")
NEWEST_MATCHES = """
    newest (key, score) AS MATERIALIZED (
        SELECT rowid, bm25(messages_fts) FROM messages_fts WHERE messages_fts MATCH :query
        ORDER BY rowid DESC LIMIT :weighed
    )
"""
# A join on the key would have FTS5 look up the whole query once for each of them.
SNIPPETS = f"""
    snippets (key, snippet) AS MATERIALIZED (
        SELECT rowid, snippet(messages_fts, 0, '', '', '…', {SNIPPET_TOKENS}) FROM messages_fts
        WHERE messages_fts MATCH :query AND rowid >= (SELECT min(key) FROM best) AND +rowid IN (SELECT key FROM best)
    )
"""


class Hit(NamedTuple):
    message: Message
    snippet: str
    """The part of its text around the words, with an ellipsis where it was cut."""


@dataclass(frozen=True)
class Found:
    """A conversation whose title, or one of whose messages, contains all the words."""

    conversation: Conversation
    snippet: str
    """The part of that message around the words, with an ellipsis where it was cut; else the title."""
    message_id: str | None
    """Of the message that matches best; None where only the title does."""


class Search(Database):
    def find(self, words: str, limit: int = 50) -> list[Found]:
        """Conversations whose title or any message contains all the words, best match first.

        English endings are ignored ("unpacking" finds "unpack"), and the last word may be the beginning of one. A
        title counts ten times as much as a message.
        """
        if not (asked := _asked(words, limit)):
            return []
        with self._read() as database:
            rows = database.query(
                f"""
                WITH {NEWEST_MATCHES}, said (id, message_id, key, score) AS (
                    SELECT messages.conversation_id, messages.id, newest.key, min(newest.score)
                    FROM newest JOIN messages USING (key) GROUP BY messages.conversation_id
                ), newest_titles (key, score) AS MATERIALIZED (
                    SELECT rowid, bm25(titles_fts, {TITLE_WEIGHT}) FROM titles_fts WHERE titles_fts MATCH :query
                    ORDER BY rowid DESC LIMIT :weighed
                ), named (id, score) AS (
                    SELECT conversations.id, score FROM newest_titles JOIN conversations USING (key)
                ), best (id, message_id, key, score) AS MATERIALIZED (
                    SELECT id, max(message_id), max(key), sum(score)
                    FROM (SELECT * FROM said UNION ALL SELECT id, NULL, NULL, score FROM named)
                    GROUP BY id ORDER BY sum(score) LIMIT :limit
                ), {SNIPPETS}
                SELECT {CONVERSATION_COLUMNS}, coalesce(snippet, title) AS snippet, message_id
                FROM best JOIN conversations USING (id) LEFT JOIN snippets ON snippets.key = best.key
                ORDER BY score, conversations.updated DESC, conversations.key DESC
                """,
                asked,
            )
            return [Found(conversation_from(row), shown(row["snippet"]), row["message_id"]) for row in rows]

    def search(self, words: str, limit: int = 50) -> list[Hit]:
        """Finished messages that contain all the words, best match first; words as for `find`."""
        if not (asked := _asked(words, limit)):
            return []
        with self._read() as database:
            rows = database.query(
                f"""
                WITH {NEWEST_MATCHES}, best (key, score) AS MATERIALIZED (
                    SELECT key, score FROM newest ORDER BY score, key LIMIT :limit
                ), {SNIPPETS}
                SELECT {MESSAGE_COLUMNS}, snippet FROM best
                JOIN messages ON messages.key = best.key
                JOIN snippets ON snippets.key = best.key
                LEFT JOIN partials ON partials.message_id = messages.id
                ORDER BY score, best.key
                """,
                asked,
            )
            return [Hit(message_from(row), shown(row["snippet"])) for row in rows]


def _asked(words: str, limit: int) -> dict[str, str | int]:
    """The parameters of a search; none where there is nothing to look for."""
    wanted = _wanted(words)
    if not wanted:
        return {}
    parts = sum(map(_parts, wanted))
    weighed = WEIGHED // parts // (4 if min(map(len, wanted)) == 1 else 1)
    return {"query": quoted(words), "weighed": max(limit, weighed), "limit": limit}


def quoted(words: str) -> str:
    """An FTS5 query in which each word is a quoted string, so that nothing a person types is query syntax.

    A quote inside a string is written twice.
    """
    strings = [word.replace('"', '""') for word in _wanted(words)]
    return " ".join(f'"{string}"' for string in strings) + "*" if strings else ""


def _wanted(words: str) -> list[str]:
    """Each word once, the last one at the end; FTS5 reads its query up to the first NUL.

    What has no spaces in it is a phrase to FTS5, of which the beginning does.
    """
    typed = [_cut(apart(word) or word) for word in well_formed(words[:MOST_LETTERS]).replace("\0", " ").split()]
    different = list({word.casefold(): word for word in reversed(typed)}.values())[::-1]
    rarest = sorted(different, key=_longest_part, reverse=True)
    within = takewhile(lambda parts: parts <= MOST_WORDS, accumulate(map(_parts, rarest)))
    kept = {word for word, _ in zip(rarest, within)}
    return [word for word in different if word in kept]


def _parts(word: str) -> int:
    return max(1, len(_PARTS.findall(word)))


def _longest_part(word: str) -> int:
    return max(map(len, _PARTS.findall(word)), default=0)


def _cut(word: str) -> str:
    ends = [part.end() for part in _PARTS.finditer(word)]
    return word[: ends[MOST_WORDS - 1]] if len(ends) > MOST_WORDS else word
