"""The layer over sqlite3, and the migrations that sqlite-utils runs on it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import pytest
import sqlite_utils

from storage.sqlite import Migrations, Sqlite


@pytest.fixture
def database() -> Iterator[Sqlite]:
    database = Sqlite(sqlite3.connect(":memory:", isolation_level=None))
    yield database
    database.close()


@pytest.fixture
def migrations() -> Migrations:
    ours = Migrations("ours")

    @ours.register
    def first(database: sqlite_utils.Database) -> None:
        database.execute("CREATE TABLE one (a)")

    @ours.register
    def second(database: sqlite_utils.Database) -> None:
        database.execute("CREATE TABLE two (b)")

    return ours


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


def test_migrations_are_all_made_or_none_inside_a_transaction(database: Sqlite, migrations: Migrations) -> None:
    @migrations.register
    def third(database: sqlite_utils.Database) -> None:
        database.executescript("CREATE TABLE three (c); CREATE TABLE one (again);")

    database.execute("BEGIN IMMEDIATE")
    with pytest.raises(sqlite3.OperationalError, match="already exists"):
        migrations.apply(database)
    database.rollback()
    assert database.tables() == set()


def test_another_set_of_migrations_in_the_same_file_is_not_ours(database: Sqlite, migrations: Migrations) -> None:
    Migrations("another").apply(database)
    other = Migrations("another")

    @other.register
    def second(database: sqlite_utils.Database) -> None:
        database.execute("CREATE TABLE elsewhere (a)")

    other.apply(database)
    assert migrations.applied(database) == []
    migrations.apply(database)
    assert migrations.applied(database) == ["first", "second"] and "two" in database.tables()
