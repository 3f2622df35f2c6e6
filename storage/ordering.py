"""The order in which what waits for the target is sent, as the person wants it."""

from __future__ import annotations

import json
from collections.abc import Sequence

from storage.database import Database, NotFound
from storage.sqlite import Sqlite


class Ordering(Database):
    def swap_queued(self, first_id: str, second_id: str) -> None:
        """Exchanges the places of two that wait. Raises `NotFound`."""
        with self._write() as database:
            rows = database.execute("SELECT id, key FROM queue WHERE id IN (?, ?)", (first_id, second_id)).fetchall()
            keys = dict(rows)
            for queued_id in (first_id, second_id):
                if queued_id not in keys:
                    raise NotFound(f"There is no {queued_id} in the queue any more; it may have been sent.")
            _place(database, [(keys[first_id], second_id), (keys[second_id], first_id)])

    def order_queued(self, ids: Sequence[str]) -> None:
        """Has these wait in this order, in the places that they have among all; what waits no more is passed over."""
        with self._write() as database:
            rows = database.execute(
                "SELECT id, key FROM queue WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(list(ids)),)
            ).fetchall()
            keys = dict(rows)
            _place(database, list(zip(sorted(keys.values()), (one for one in ids if one in keys))))


def _place(database: Sqlite, places: Sequence[tuple[int, str]]) -> None:
    # A key is unique at every moment, and none is below 1.
    for sign in (-1, 1):
        database.executemany("UPDATE queue SET key = ? WHERE id = ?", ((sign * key, one) for key, one in places))
