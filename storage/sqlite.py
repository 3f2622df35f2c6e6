"""A thin layer over `sqlite3`: rows as dictionaries, and named migrations.

sqlite-utils runs the migrations and records them. It is imported only if a migration has to run: with numpy, which it
imports if installed, it takes 160 of the 390 ms until the first frame.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import sqlite_utils

Parameters = Sequence[object] | Mapping[str, object]
Change = Callable[["sqlite_utils.Database"], None]


class Sqlite:
    """A connection that never begins a transaction on its own. Raises the errors of `sqlite3`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def execute(self, sql: str, parameters: Parameters = ()) -> sqlite3.Cursor:
        return self.connection.execute(sql, parameters)

    def executemany(self, sql: str, rows: Iterable[Parameters]) -> sqlite3.Cursor:
        return self.connection.executemany(sql, rows)

    def query(self, sql: str, parameters: Parameters = ()) -> Iterator[dict[str, Any]]:
        """Runs the statement at once and returns an iterator over its rows, each a dictionary by column name."""
        cursor = self.execute(sql, parameters)
        columns = [column[0] for column in cursor.description]
        return (dict(zip(columns, row)) for row in cursor)

    def tables(self) -> set[str]:
        return {name for (name,) in self.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}

    def rollback(self) -> None:
        self.connection.rollback()

    def close(self) -> None:
        self.connection.close()


class Migrations:
    """Named changes to the schema, in the order in which they were registered."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._changes: dict[str, Change] = {}

    @property
    def known(self) -> list[str]:
        return list(self._changes)

    def register(self, change: Change) -> Change:
        """Decorator that adds a migration under the name of the function."""
        self._changes[change.__name__] = change
        return change

    def applied(self, database: Sqlite) -> list[str]:
        """The names of the migrations that ran on this database, oldest first, unknown ones included."""
        if "_sqlite_migrations" not in database.tables():
            return []
        rows = database.execute(
            "SELECT name FROM _sqlite_migrations WHERE migration_set = ? ORDER BY rowid", (self.name,)
        )
        return [name for (name,) in rows]

    def pending(self, database: Sqlite) -> list[str]:
        applied = set(self.applied(database))
        return [name for name in self._changes if name not in applied]

    def apply(self, database: Sqlite, *, stop_before: str | None = None) -> None:
        """Runs and records the pending changes. Atomic if the caller has begun a transaction."""
        import sqlite_utils
        from sqlite_utils.migrations import Migrations as Record

        class Database(sqlite_utils.Database):
            def executescript(self, sql: str) -> sqlite3.Cursor:
                """Run each statement within the open transaction. A statement ends at the end of a line.

                The method that it overrides looks for the end at each character, which took three quarters of the
                time that a new database takes.
                """
                cursor, statement = self.conn.cursor(), ""
                for line in sql.splitlines(keepends=True):
                    statement += line
                    if sqlite3.complete_statement(statement):
                        cursor.execute(statement)
                        statement = ""
                return cursor.execute(statement)  # The last one may lack its semicolon.

        record = Record(self.name)
        for change in self._changes.values():
            record()(change)
        # Plugins are for the sqlite-utils command; one that happens to be installed must not touch this database.
        record.apply(Database(database.connection, execute_plugins=False), stop_before=stop_before)
