from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from storage import NewerDatabase, Store
from storage.migrations import MIGRATIONS
from storage.sqlite import Sqlite
from tests.storage.test_bin import assert_sound


def names(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as connection:
        return {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}


@pytest.fixture
def old_database(path: Path) -> Path:
    """A database with one conversation from a version before there was memory."""
    path.parent.mkdir()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        database = Sqlite(connection)
        MIGRATIONS.apply(database, stop_before="m003_memory")
        database.execute(
            "INSERT INTO conversations (id, title, created, updated) VALUES ('c', 'old', '2026-01-01', '2026-01-01')"
        )
    return path


def test_a_new_database_gets_all_migrations_and_needs_no_backup(path: Path) -> None:
    Store.open(path).close()
    with closing(sqlite3.connect(path)) as connection:
        assert [
            name for (name,) in connection.execute("SELECT name FROM _sqlite_migrations ORDER BY id")
        ] == MIGRATIONS.known
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_words_without_spaces_are_found_from_then_on(path: Path) -> None:
    path.parent.mkdir()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        database = Sqlite(connection)
        MIGRATIONS.apply(database, stop_before="m006_words")
        database.execute("INSERT INTO conversations (id, title, created, updated) VALUES ('c', '明天去公园', '', '')")
        for key, text, deleted in (("m", "今天天气怎么样", None), ("n", "今天天气很好", "2999"), ("o", "no 天", None)):
            database.execute(
                "INSERT INTO messages (id, conversation_id, role, text, status, created, deleted)"
                " VALUES (?, 'c', 'user', ?, 'done', '', ?)",
                (key, text, deleted),
            )
    with Store.open(path) as store:
        assert_sound(store)
        assert [hit.message.id for hit in store.search.messages("天气")] == ["m"]
        assert [hit.message.id for hit in store.search.messages("天")] == ["o", "m"]
        assert [found.snippet for found in store.search.conversations("公园")] == ["明天去公园"]
        store.bin.restore_message("n")
        assert {hit.message.id for hit in store.search.messages("天气")} == {"m", "n"}
        store.bin.delete_message("m")
        store.conversations.rename("c", "后天")
        assert store.search.conversations("公园") == [] and [
            hit.message.id for hit in store.search.messages("天气")
        ] == ["n"]
        assert_sound(store)


def test_the_backup_of_a_migration_that_was_cut_off_is_made_again(old_database: Path) -> None:
    unfinished = old_database.with_name("outrider.db.before-m003_memory.part")
    unfinished.write_bytes(b"half a database")
    Store.open(old_database).close()
    assert not unfinished.exists()
    assert "conversations" in names(old_database.with_name("outrider.db.before-m003_memory"))


def test_a_database_of_a_newer_version_is_refused(path: Path) -> None:
    Store.open(path).close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "INSERT INTO _sqlite_migrations (migration_set, name, applied_at) VALUES ('outrider', 'm999_telepathy', '')"
        )
    with pytest.raises(NewerDatabase, match="m999_telepathy.*update Outrider"):
        Store.open(path)
