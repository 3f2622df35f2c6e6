"""Full-text search over titles and over all messages, in every branch. Summaries of them are not found.

A search runs at every keystroke, and the first letters of a word occur in most messages: scoring 50,000 of them with
BM25 takes at least 60 ms. Only the newest matches are scored, which takes the same time in a database of any size; a
search with fewer matches is exact. Each further word costs as much again, so a search for more words scores fewer
matches. Of a pasted text only the longest words are searched for, which are also the rarest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, takewhile
from typing import Any, NamedTuple

from storage.database import Database
from storage.records import (
    CONVERSATION_COLUMNS,
    MESSAGE_COLUMNS,
    SELECT_CONVERSATIONS,
    SELECT_MESSAGES,
    WITH_PARTIALS,
    Conversation,
    Message,
    Stats,
    conversation_from,
    message_from,
    unpack_stats,
)
from storage.tags import split_tags
from storage.words import shown, well_formed
from storage.words import words as apart

SNIPPET_TOKENS = 16
WEIGHED = 2000
"""How many messages, and how many titles, are scored for one word: about 3 ms. A quarter as many for a single letter,
because every second word of a long answer may begin with it."""
MOST_WORDS = 12
"""How many words are searched for. A word that occurs everywhere costs 4 ms. FTS5 reads `path/to/file` as three."""
MOST_LETTERS = 4096
"""How many characters of the typed or pasted text are read."""
TITLE_WEIGHT = 10.0
OPEN, CLOSE = "\ufdd0", "\ufdd1"
"""Markers around each found word. Both are Unicode noncharacters, which no text contains."""
_PARTS = re.compile(r"[^\W_]+")
NEWEST_MATCHES = """
    newest (key, score) AS MATERIALIZED (
        SELECT rowid, bm25(messages_fts) FROM messages_fts WHERE messages_fts MATCH :query
        ORDER BY rowid DESC LIMIT :weighed
    )
"""
# A join on the key would make FTS5 run the whole query once for each of them.
SNIPPETS = f"""
    snippets (key, snippet) AS MATERIALIZED (
        SELECT rowid, snippet(messages_fts, 0, '{OPEN}', '{CLOSE}', '…', {SNIPPET_TOKENS}) FROM messages_fts
        WHERE messages_fts MATCH :query AND rowid >= (SELECT min(key) FROM best) AND +rowid IN (SELECT key FROM best)
    )
"""
TITLES = f"""
    titles (key, title) AS MATERIALIZED (
        SELECT rowid, highlight(titles_fts, 0, '{OPEN}', '{CLOSE}') FROM titles_fts
        WHERE titles_fts MATCH :query AND rowid >= (SELECT min(title_key) FROM best)
        AND +rowid IN (SELECT title_key FROM best)
    )
"""
EVERY = 10**9
"""As many as there are: those with a tag may be old."""
Marks = tuple[tuple[int, int], ...]
"""Character ranges of the matches in a text."""


class FoundMessage(NamedTuple):
    """A message that contains all the words."""

    message: Message
    snippet: str
    """The part of its text around the words, with an ellipsis at each cut."""
    marks: Marks
    """The ranges of the words in `snippet`."""


@dataclass(frozen=True)
class FoundConversation:
    """A conversation that contains all the words in its title or in one message."""

    conversation: Conversation
    snippet: str
    """The part of the best message around the words, with an ellipsis at each cut; the title if no message matches."""
    message_id: str | None
    """The message that matches best; None if only the title matches."""
    marks: Marks = ()
    """The ranges of the words in `snippet`."""
    title_marks: Marks = ()
    """The ranges of the words in the title; empty if it does not contain all of them."""
    messages: int = 0
    """How many of the messages that were scored contain the words."""
    stats: Stats = field(default_factory=dict)
    """The statistics of the best message."""


class FullTextSearch:
    """Finds conversations and messages that contain all given words, best match first.

    English endings are ignored ("unpacking" finds "unpack"), and the last word may be the beginning of one.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def conversations(self, words: str, limit: int = 50) -> list[FoundConversation]:
        """The conversations whose title or any one message contains the words. A title counts ten times as much.

        A word after `#` is the beginning of a tag that they have, unless none has it.
        """
        tags, rest = split_tags(words)
        if tags and (tagged := self._tagged(tags)):
            if not rest:
                return [FoundConversation(one, one.title, None) for one in tagged[:limit]]
            ids = {one.id for one in tagged}
            return [one for one in self._with_words(rest, EVERY, EVERY) if one.conversation.id in ids][:limit]
        return self._with_words(words, limit)

    def _tagged(self, tags: Sequence[str]) -> list[Conversation]:
        """The conversations with a tag that begins with each of these; pinned ones first, then the newest."""
        with self._database.read() as sql:
            rows = sql.query(
                f"""{SELECT_CONVERSATIONS} WHERE deleted IS NULL AND choices LIKE '%"tags"%'
                ORDER BY pinned DESC, written DESC, key DESC"""
            )
            every = [conversation_from(row) for row in rows]
        return [one for one in every if all(any(has.startswith(tag) for has in one.choices.tags) for tag in tags)]

    def _with_words(self, words: str, limit: int, weighed: int | None = None) -> list[FoundConversation]:
        if not (parameters := _parameters(words, limit)):
            return []
        if weighed is not None:
            parameters = {**parameters, "weighed": weighed}
        with self._database.read() as sql:
            rows = sql.query(
                f"""
                WITH {NEWEST_MATCHES}, said (id, message_id, key, score, messages) AS (
                    SELECT messages.conversation_id, messages.id, newest.key, min(newest.score), count(*)
                    FROM newest JOIN messages USING (key) WHERE NOT messages.summary GROUP BY messages.conversation_id
                ), newest_titles (key, score) AS MATERIALIZED (
                    SELECT rowid, bm25(titles_fts, {TITLE_WEIGHT}) FROM titles_fts WHERE titles_fts MATCH :query
                    ORDER BY rowid DESC LIMIT :weighed
                ), named (id, key, score) AS (
                    SELECT conversations.id, conversations.key, score FROM newest_titles JOIN conversations USING (key)
                ), best (id, message_id, key, title_key, score, messages) AS MATERIALIZED (
                    SELECT id, max(message_id), max(key), max(title_key), sum(score), sum(messages)
                    FROM (
                        SELECT id, message_id, key, NULL AS title_key, score, messages FROM said
                        UNION ALL SELECT id, NULL, NULL, key, score, 0 FROM named
                    )
                    GROUP BY id ORDER BY sum(score) LIMIT :limit
                ), {SNIPPETS}, {TITLES}
                SELECT {CONVERSATION_COLUMNS}, snippet, titles.title AS found_title, message_id, best.messages,
                    (SELECT stats FROM messages WHERE messages.key = best.key) AS stats
                FROM best JOIN conversations USING (id) LEFT JOIN snippets ON snippets.key = best.key
                LEFT JOIN titles ON titles.key = best.title_key
                ORDER BY score, conversations.written DESC, conversations.key DESC
                """,
                parameters,
            )
            return [_found(conversation_from(row), row) for row in rows]

    def messages(self, words: str, limit: int = 50) -> list[FoundMessage]:
        """The finished messages that contain the words. Tags in them count as for `conversations`.

        For tags alone, the first question of each conversation.
        """
        tags, rest = split_tags(words)
        tagged = [one.id for one in self._tagged(tags)] if tags else []
        if tagged and not rest:
            return self._first_questions(tagged, limit)
        if not (parameters := _parameters(rest if tagged else words, limit)):
            return []
        if tagged:
            parameters |= {"weighed": EVERY, "tagged": json.dumps(tagged)}
        among = "AND conversation_id IN (SELECT value FROM json_each(:tagged))" if tagged else ""
        with self._database.read() as sql:
            rows = sql.query(
                f"""
                WITH {NEWEST_MATCHES}, best (key, score) AS MATERIALIZED (
                    SELECT key, score FROM newest JOIN messages USING (key)
                    WHERE NOT messages.summary {among} ORDER BY score, key LIMIT :limit
                ), {SNIPPETS}
                SELECT {MESSAGE_COLUMNS}, snippet FROM best
                JOIN messages ON messages.key = best.key
                JOIN snippets ON snippets.key = best.key
                {WITH_PARTIALS}
                ORDER BY score, best.key
                """,
                parameters,
            )
            return [FoundMessage(message_from(row), *_marked(row["snippet"])) for row in rows]

    def _first_questions(self, ids: Sequence[str], limit: int) -> list[FoundMessage]:
        """The first question of each of these conversations, in this order, with its beginning."""
        with self._database.read() as sql:
            rows = sql.query(
                f"""
                {SELECT_MESSAGES} JOIN (
                    SELECT min(messages.key) AS first, tagged.key AS place
                    FROM json_each(?) AS tagged JOIN messages ON messages.conversation_id = tagged.value
                    WHERE messages.role = 'user' AND messages.deleted IS NULL AND NOT messages.summary
                    GROUP BY tagged.key
                ) ON messages.key = first ORDER BY place LIMIT ?
                """,
                (json.dumps(ids), limit),
            )
            return [FoundMessage(one, _beginning(one.text), ()) for one in map(message_from, rows)]


def _found(conversation: Conversation, row: Mapping[str, Any]) -> FoundConversation:
    title, title_marks = _marked(row["found_title"] or "")
    if row["snippet"] is None:
        return FoundConversation(conversation, title, None, title_marks, title_marks)
    snippet, marks = _marked(row["snippet"])
    stats = unpack_stats(row["stats"])
    return FoundConversation(conversation, snippet, row["message_id"], marks, title_marks, row["messages"], stats)


def _beginning(text: str) -> str:
    first = text[:MOST_LETTERS].split()
    return " ".join(first[:SNIPPET_TOKENS]) + ("…" if len(first) > SNIPPET_TOKENS else "")


def _marked(text: str) -> tuple[str, Marks]:
    """A text without the markers, and the ranges of the matches."""
    pieces: list[str] = []
    marks: list[tuple[int, int]] = []
    at = 0
    for number, part in enumerate(text.split(OPEN)):
        found, close, rest = part.partition(CLOSE) if number else ("", "", part)
        found, rest = (shown(found), shown(rest)) if close or not number else ("", shown(found))
        if found:
            joins = bool(marks) and marks[-1][1] == at  # Letters of a script without spaces are words to the index.
            marks[-1:] = [(marks[-1][0], at + len(found))] if joins else [*marks[-1:], (at, at + len(found))]
        pieces += [found, rest]
        at += len(found) + len(rest)
    return "".join(pieces).replace(CLOSE, ""), tuple(marks)


def _parameters(words: str, limit: int) -> dict[str, str | int]:
    """The SQL parameters of a search; empty if there is no word to search for."""
    wanted = _wanted(words)
    if not wanted:
        return {}
    parts = sum(map(_parts, wanted))
    weighed = WEIGHED // parts // (4 if min(map(len, wanted)) == 1 else 1)
    return {"query": quoted(words), "weighed": max(limit, weighed), "limit": limit}


def quoted(words: str) -> str:
    """An FTS5 query in which each word is a quoted string, so nothing that a person types is query syntax.

    A quote inside a string is doubled.
    """
    strings = [word.replace('"', '""') for word in _wanted(words)]
    return " ".join(f'"{string}"' for string in strings) + "*" if strings else ""


def _wanted(words: str) -> list[str]:
    """The words to search for, each once, the last one typed at the end.

    NUL counts as a space, because FTS5 stops reading there. Text in a script without spaces is one phrase to FTS5, of
    which the beginning is enough.
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
