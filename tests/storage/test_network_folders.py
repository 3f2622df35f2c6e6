"""Folders whose files processes can write, but not share in memory: SQLite's log cannot be used there."""

from __future__ import annotations

import os
import sqlite3
import sys
from pathlib import Path

import pytest

from storage import Store
from storage.database import Database

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX files")


@pytest.mark.parametrize("comes_with_a_log", [False, True])
def test_a_rollback_journal_takes_the_place_of_the_log(path: Path, comes_with_a_log: bool) -> None:
    database = path.with_name("network.db")
    with Store.open(path) as store:
        kept = store.conversations.create("kept")
        for name in ("", "-wal") if comes_with_a_log else ():
            database.with_name(database.name + name).write_bytes(path.with_name(path.name + name).read_bytes())
    os.mkfifo(database.with_name("network.db-shm"))  # Nobody can share it in memory.
    with Store.open(database) as store:
        assert store.conversations.all() == ([kept] if comes_with_a_log else [])
        with store.database.read() as sql:
            assert sql.execute("PRAGMA journal_mode").fetchone() == ("delete",)
            assert sql.execute("PRAGMA synchronous").fetchone() == (2,)
    with Store.open(database) as store, Store.open(database) as other, Store.read(database) as reader:
        added = other.conversations.create("added")
        assert added in store.conversations.all() and added in reader.conversations.all()


def test_so_it_does_where_locks_are_never_granted(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite tries for ten seconds, and then fails as here."""

    def fail(database: Database) -> None:
        error = sqlite3.OperationalError("locking protocol")
        error.sqlite_errorcode = sqlite3.SQLITE_PROTOCOL
        raise error

    monkeypatch.setattr(Database, "_enter_wal", fail)
    with Store.open(path) as store, store.database.read() as sql:
        assert sql.execute("PRAGMA journal_mode").fetchone() == ("delete",)
