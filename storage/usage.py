"""Adds up what answers have cost, in tokens and dollars, from the statistics stored with each.

An answer has the counts of its server, and the price that was known when it was written. Answers in the bin count, for
they were paid too. What was imported from other programs does not, and a copy of an answer counts once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from storage.database import Database

By = Literal["month", "conversation", "model"]
COUNTS = ("tokens_in", "tokens_out", "uncounted", "prompt_tokens", "completion_tokens")
"""The statistics that count what an answer has cost. tokens_in, tokens_out: of all requests to the server. uncounted:
requests whose tokens the server did not count, or that were stopped before it did. The last two: of one request that
wrote the whole answer."""
MOST = 10**12
"""Most tokens that are believed of one answer, so that no import makes the sums overflow."""
KEYS: dict[By, str] = {
    "month": "strftime('%Y-%m', created, 'localtime')",
    "conversation": "conversation_id",
    "model": "coalesce(json_extract(stats, '$.model'), '')",
}


@dataclass(frozen=True)
class Used:
    """The sums of some answers."""

    key: str
    """The month as `2026-11` in local time, the id of the conversation, or the name of the model."""
    answers: int = 0
    read: int = 0
    """Tokens of the prompts."""
    written: int = 0
    """Tokens of the answers, reasoning included where servers count it."""
    dollars: float | None = None
    """What the answers with a known price have cost, or None if none has one."""
    unpriced: int = 0
    """Answers of OpenAI-compatible servers without a known price."""
    uncounted: int = 0
    """Answers with a request whose tokens the server did not count."""


class Usage:
    """Sums over the answers of all conversations."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def by(self, what: By, conversation_id: str | None = None) -> list[Used]:
        """The sums for each month, conversation or model, the last used first. `conversation_id`: of this one only."""
        with self._database.read() as sql:
            rows = sql.execute(
                f"""
                WITH answers AS (
                    SELECT min(key) AS key, conversation_id, created, stats FROM messages
                    WHERE role = 'assistant' AND owner IS NULL AND json_extract(stats, '$.source') IS NULL
                    GROUP BY created, stats
                ), counted AS (
                    SELECT key, {KEYS[what]} AS name, {_number("tokens_in", "prompt_tokens", "read")} AS read,
                    {_number("tokens_out", "completion_tokens", "streamed")}
                    + {_number("verified")} + {_number("drafted")} AS written,
                    {_number("tokens_in")} * json_extract(stats, '$.price_in')
                    + {_number("tokens_out")} * json_extract(stats, '$.price_out') AS cost,
                    json_type(stats, '$.tokens_in') IS NOT NULL AS asked, {_number("uncounted")} AS uncounted
                    FROM answers WHERE :conversation IS NULL OR conversation_id = :conversation
                )
                SELECT name, count(*), sum(read), sum(written), sum(cost) / 1e6, sum(asked AND cost IS NULL),
                sum(uncounted > 0) FROM counted WHERE read + written + uncounted > 0
                GROUP BY name ORDER BY max(key) DESC
                """,
                {"conversation": conversation_id},
            ).fetchall()
        return [Used(*row) for row in rows]


def _number(*names: str) -> str:
    """SQL for the first of these statistics that is a number, or 0. An import may have anything there."""
    found = (
        f"CASE json_type(stats, '$.{name}') WHEN 'integer' THEN min(stats ->> '$.{name}', {MOST}) END" for name in names
    )
    return f"coalesce({', '.join(found)}, 0)"
