"""The connection beneath the tables, and the record of migrations, which older versions left to sqlite-utils."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import pytest

from storage.sqlite import Migrations, Sqlite

RECORD = """
    CREATE TABLE "_sqlite_migrations" ("id" INTEGER PRIMARY KEY, "migration_set" TEXT, "name" TEXT, "applied_at" TEXT);
    CREATE UNIQUE INDEX "idx__sqlite_migrations_migration_set_name" ON "_sqlite_migrations" ("migration_set", "name");
    INSERT INTO _sqlite_migrations (migration_set, name, applied_at) VALUES ('ours', 'first', '2026-01-01');
    INSERT INTO _sqlite_migrations (migration_set, name, applied_at) VALUES ('another', 'other', '2026-01-01');
"""
"""As sqlite-utils 4.2 writes it."""


@pytest.fixture
def database() -> Iterator[Sqlite]:
    database = Sqlite(sqlite3.connect(":memory:", isolation_level=None))
    yield database
    database.close()


@pytest.fixture
def migrations() -> Migrations:
    ours = Migrations("ours")

    @ours.register
    def first(database: Sqlite) -> None:
        database.execute("CREATE TABLE one (a)")

    @ours.register
    def second(database: Sqlite) -> None:
        database.execute("CREATE TABLE two (b)")

    return ours


def test_a_script_runs_inside_the_open_transaction(database: Sqlite) -> None:
    database.execute("BEGIN")
    database.executescript("""
        CREATE TABLE one (a);
        CREATE TABLE log (a);
        CREATE TRIGGER logged AFTER INSERT ON one BEGIN
            INSERT INTO log VALUES (new.a);
            INSERT INTO log VALUES ('; a semicolon');
        END;
        INSERT INTO one VALUES ('a;b');
    """)
    assert list(database.query("SELECT a FROM log")) == [{"a": "a;b"}, {"a": "; a semicolon"}]
    database.rollback()
    assert database.tables() == set()


def test_a_query_has_run_when_it_returns(database: Sqlite) -> None:
    database.execute("CREATE TABLE one (a)")
    rows = database.query("INSERT INTO one VALUES (1) RETURNING a AS b")
    assert database.execute("SELECT count(*) FROM one").fetchone() == (1,)
    assert list(rows) == [{"b": 1}]


def test_migrations_are_made_once_in_their_order(database: Sqlite, migrations: Migrations) -> None:
    assert migrations.pending(database) == migrations.known == ["first", "second"] and database.tables() == set()
    migrations.apply(database, stop_before="second")
    assert migrations.applied(database) == ["first"] and "two" not in database.tables()
    migrations.apply(database)
    migrations.apply(database)
    assert migrations.applied(database) == ["first", "second"] and migrations.pending(database) == []


def test_what_sqlite_utils_recorded_counts(database: Sqlite, migrations: Migrations) -> None:
    database.executescript(RECORD)
    migrations.apply(database)
    assert database.tables() == {"_sqlite_migrations", "two"} and migrations.applied(database) == ["first", "second"]


def test_the_record_is_the_one_that_sqlite_utils_makes(database: Sqlite, migrations: Migrations) -> None:
    migrations.apply(database)
    made = {row["name"]: row["sql"] for row in database.query("SELECT name, sql FROM sqlite_master")}
    older = Sqlite(sqlite3.connect(":memory:", isolation_level=None))
    older.executescript(RECORD)
    expected = {row["name"]: row["sql"] for row in older.query("SELECT name, sql FROM sqlite_master")}
    older.close()
    for name, sql in expected.items():
        assert "".join(made[name].split()) == "".join(sql.split()).replace("IFNOTEXISTS", "")
