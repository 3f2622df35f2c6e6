"""SQLite as the tables' code speaks to it: rows as dictionaries, scripts inside transactions, named migrations.

The record of the migrations is the one that sqlite-utils keeps, whose command can still look into the database. The
library itself takes longer to import than all the rest that the first frame needs: with numpy, which it imports where
that is installed, 160 ms of 390.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

Parameters = Sequence[object] | Mapping[str, object]
Change = Callable[["Sqlite"], None]


class Sqlite:
    """A connection that begins no transaction by itself; every failure is one of `sqlite3`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def execute(self, sql: str, parameters: Parameters = ()) -> sqlite3.Cursor:
        return self._connection.execute(sql, parameters)

    def executemany(self, sql: str, rows: Iterable[Parameters]) -> sqlite3.Cursor:
        return self._connection.executemany(sql, rows)

    def executescript(self, sql: str) -> None:
        """Each statement of a script, inside the transaction that is open: `sqlite3` would commit it first."""
        statement = ""
        for part in sql.rstrip().removesuffix(";").split(";"):
            statement += f"{part};"
            if sqlite3.complete_statement(statement):  # A trigger's body holds semicolons.
                self._connection.execute(statement)
                statement = ""

    def query(self, sql: str, parameters: Parameters = ()) -> Iterator[dict[str, Any]]:
        """The rows by column; the statement has run when this returns, and rows are read as they are asked for."""
        cursor = self.execute(sql, parameters)
        columns = [column[0] for column in cursor.description]
        return (dict(zip(columns, row)) for row in cursor)

    def tables(self) -> set[str]:
        return {name for (name,) in self.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}

    def rollback(self) -> None:
        self._connection.rollback()

    def close(self) -> None:
        self._connection.close()


class Migrations:
    """Changes to the schema, each by its name, in the order in which they were registered."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._changes: dict[str, Change] = {}

    @property
    def known(self) -> list[str]:
        return list(self._changes)

    def register(self, change: Change) -> Change:
        """A decorator; the function's name is the migration's."""
        self._changes[change.__name__] = change
        return change

    def applied(self, database: Sqlite) -> list[str]:
        """Names of those that this database has had, the oldest first; also ones that are not known here."""
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
        """Makes the pending changes, and records them. Atomic if it is inside one transaction."""
        database.execute("""
            CREATE TABLE IF NOT EXISTS "_sqlite_migrations" (
                "id" INTEGER PRIMARY KEY,
                "migration_set" TEXT,
                "name" TEXT,
                "applied_at" TEXT
            )
        """)
        database.execute("""
            CREATE UNIQUE INDEX IF NOT EXISTS "idx__sqlite_migrations_migration_set_name"
            ON "_sqlite_migrations" ("migration_set", "name")
        """)
        for name in self.pending(database):
            if name == stop_before:
                return
            self._changes[name](database)
            database.execute(
                "INSERT INTO _sqlite_migrations (migration_set, name, applied_at) VALUES (?, ?, ?)",
                (self.name, name, str(datetime.now(UTC))),
            )
