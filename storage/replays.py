"""Under what circumstances each checked answer was drafted, so that a drafter can learn from it later.

The text of an answer and the memory are kept anyway. What they do not tell is which memory had arrived when a draft was
made; that is kept here, a few bytes a round. It goes with its message.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from storage.database import Database
from storage.rows import find_message

ROUND = struct.Struct("<II")


@dataclass(frozen=True)
class Replay:
    """The drafts of one answer."""

    message_id: str
    conversation_id: str
    prompt: int
    """Tokens of the conversation before the answer."""
    rounds: tuple[tuple[int, int], ...]
    """For each draft: tokens of the conversation, and how many of them, from the first on, had their memory here."""


class Replays:
    """The drafts of all answers that can be learnt from."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def save(self, message_id: str, digest: bytes, prompt: int, rounds: Sequence[tuple[int, int]]) -> None:
        """Keeps how an answer was drafted. `digest` names the format of the memory. Raises `NotFound`."""
        packed = b"".join(ROUND.pack(*one) for one in rounds)
        with self._database.write() as sql:
            find_message(sql, message_id)
            sql.execute(
                "INSERT OR REPLACE INTO replays (message_id, digest, prompt, rounds) VALUES (?, ?, ?, ?)",
                (message_id, digest, prompt, packed),
            )

    def all(self, digest: bytes, most: int) -> list[Replay]:
        """The newest `most` answers that were drafted with memory of this format, oldest first; no deleted ones."""
        with self._database.read() as sql:
            rows = sql.execute(
                """
                SELECT message_id, messages.conversation_id, prompt, rounds
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
            )
            for message_id, conversation_id, prompt, packed in reversed(rows)
        ]

    def holds(self, message_ids: Iterable[str]) -> bool:
        """Whether all of these messages are still there, out of the bin."""
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
