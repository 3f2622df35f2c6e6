"""Folders whose files processes can write, but not share in memory: SQLite's log cannot be used there."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from storage import Store

pytestmark = [pytest.mark.skipif(sys.platform == "win32", reason="POSIX locks"), pytest.mark.faults]

HOLDER = """
import fcntl, sys
files = [open(path, "r+b") for path in sys.argv[1:]]
for file in files:
    file.truncate(32768)
    fcntl.lockf(file, fcntl.LOCK_EX, 8, 120)  # All that SQLite locks there, but for its mark that the file is in use.
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def unlockable(index: Path) -> Iterator[None]:
    """Let nobody else lock the log's index while this block runs, as a network folder does for ever."""
    index.touch()
    command = [sys.executable, "-c", HOLDER, str(index)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"held\n"
        yield
        process.kill()


def test_a_rollback_journal_takes_the_place_of_the_log(path: Path) -> None:
    path.parent.mkdir()
    with unlockable(path.with_name(f"{path.name}-shm")):
        with Store.open(path) as store:
            kept = store.conversations.create("kept")
            assert store.database.path == path
            with store.database.read() as sql:
                assert sql.execute("PRAGMA journal_mode").fetchone() == ("delete",)
                assert sql.execute("PRAGMA synchronous").fetchone() == (2,)
        with Store.open(path) as store, Store.open(path) as other, Store.read(path) as reader:
            added = other.conversations.create("added")
            assert {one.id for one in store.conversations.all()} == {kept.id, added.id}
            assert {one.id for one in reader.conversations.all()} == {kept.id, added.id}


def test_a_database_with_a_log_that_comes_there(path: Path) -> None:
    with Store.open(path) as store:
        kept = store.conversations.create("kept")
        for name in ("", "-wal"):
            there = path.with_name("there.db" + name)
            there.write_bytes(path.with_name(path.name + name).read_bytes())
    there = path.with_name("there.db")
    with unlockable(there.with_name("there.db-shm")), Store.open(there) as store:
        assert store.conversations.all() == [kept]
