"""How each checked answer was drafted, so that a drafter can learn from it later.

The text of an answer and the memory are stored anyway. They do not show which memory had arrived when a draft was made;
that is kept here, a few bytes per round. So is what the target might have said instead, packed, a few kB per answer;
only the newest answers keep this, up to `MOST_BYTES` in total. Both are deleted with their message.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from storage.database import Database
from storage.rows import find_message
from storage.sqlite import Sqlite

ROUND = struct.Struct("<II")
MOST_BYTES = 64 << 20
"""Total bytes of distributions to keep: more than the 2,000 answers that a drafter learns from usually need."""


@dataclass(frozen=True)
class Replay:
    """The drafts of one answer."""

    message_id: str
    conversation_id: str
    prompt: int
    """Tokens of the conversation before the answer."""
    rounds: tuple[tuple[int, int], ...]
    """For each draft: tokens of the conversation, and how many of them, from the first one on, had memory on the
    device."""
    distributions: bytes
    """What the target might have said, packed by `drafter.learning.distributions`; empty if unknown."""


class Replays:
    """The drafts of all answers that a drafter can learn from."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def save(
        self, message_id: str, digest: bytes, prompt: int, rounds: Sequence[tuple[int, int]], distributions: bytes = b""
    ) -> None:
        """Stores how an answer was drafted. `digest` names the memory format. Raises `NotFound`."""
        packed = b"".join(ROUND.pack(*one) for one in rounds)
        with self._database.write() as sql:
            find_message(sql, message_id)
            sql.execute(
                "INSERT OR REPLACE INTO replays (message_id, digest, prompt, rounds, distributions)"
                " VALUES (?, ?, ?, ?, ?)",
                (message_id, digest, prompt, packed, distributions or None),
            )
            if distributions:
                self._keep_within_budget(sql)

    def _keep_within_budget(self, sql: Sqlite) -> None:
        """Drops the distributions of the oldest answers while they exceed the budget."""
        (taken,) = sql.execute("SELECT total(length(distributions)) FROM replays").fetchone()
        if taken > MOST_BYTES:
            sql.execute(
                """
                UPDATE replays SET distributions = NULL WHERE message_id IN (
                    SELECT message_id FROM (
                        SELECT message_id, sum(length(distributions)) OVER (ORDER BY messages.key DESC) AS newest
                        FROM replays JOIN messages ON messages.id = message_id WHERE distributions IS NOT NULL
                    ) WHERE newest > ?
                )
                """,
                (MOST_BYTES,),
            )

    def all(self, digest: bytes, most: int) -> list[Replay]:
        """The newest `most` undeleted answers that were drafted with memory of this format, oldest first."""
        with self._database.read() as sql:
            rows = sql.execute(
                """
                SELECT message_id, messages.conversation_id, prompt, rounds, distributions
                FROM replays JOIN messages ON messages.id = message_id
                WHERE digest = ? AND messages.deleted IS NULL AND messages.owner IS NULL
                ORDER BY messages.key DESC LIMIT ?
                """,
                (digest, most),
            ).fetchall()
        return [
            Replay(
                message_id,
                conversation_id,
                prompt,
                tuple((length, memory) for length, memory in ROUND.iter_unpack(packed)),
                distributions or b"",
            )
            for message_id, conversation_id, prompt, packed, distributions in reversed(rows)
        ]

    def holds(self, message_ids: Iterable[str]) -> bool:
        """Whether all of these messages still exist and are not in the bin."""
        wanted = list(message_ids)
        with self._database.read() as sql:
            (found,) = sql.execute(
                "SELECT count(*) FROM json_each(?) JOIN messages ON messages.id = value AND deleted IS NULL",
                (msgspec.json.encode(wanted).decode(),),
            ).fetchone()
        return bool(found == len(wanted))

    def clear(self) -> None:
        """Forgets how all answers were drafted. The answers stay."""
        with self._database.write() as sql:
            sql.execute("DELETE FROM replays")
