"""The order in which what waits for the target is sent, as the person wants it."""

from __future__ import annotations

from storage.database import Database, NotFound


class Ordering(Database):
    def swap_queued(self, first_id: str, second_id: str) -> None:
        """Exchanges the places of two that wait. Raises `NotFound`."""
        with self._write() as database:
            rows = database.execute("SELECT id, key FROM queue WHERE id IN (?, ?)", (first_id, second_id)).fetchall()
            keys = dict(rows)
            for queued_id in (first_id, second_id):
                if queued_id not in keys:
                    raise NotFound(f"There is no {queued_id} in the queue any more; it may have been sent.")
            # A key is unique at every moment, and none is below 1.
            for key, queued_id in ((0, first_id), (keys[first_id], second_id), (keys[second_id], first_id)):
                database.execute("UPDATE queue SET key = ? WHERE id = ?", (key, queued_id))
