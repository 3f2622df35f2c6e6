"""Folders whose files processes can write, but not share in memory: SQLite's log cannot be used there."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
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
def unlockable(*indexes: Path) -> Iterator[None]:
    """Let nobody else lock the indexes of logs while this block runs, as a network folder does for ever."""
    for index in indexes:
        index.touch()
    command = [sys.executable, "-c", HOLDER, *map(str, indexes)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"held\n"
        yield
        process.kill()


def test_a_rollback_journal_takes_the_place_of_the_log(path: Path) -> None:
    """One database is new; the other comes there with a log."""
    new, came = path.with_name("new.db"), path.with_name("came.db")
    with Store.open(path) as store:
        kept = store.conversations.create("kept")
        for name in ("", "-wal"):
            came.with_name(came.name + name).write_bytes(path.with_name(path.name + name).read_bytes())
    with unlockable(new.with_name("new.db-shm"), came.with_name("came.db-shm")), ThreadPoolExecutor(2) as pool:
        begun, found = pool.map(Store.open, (new, came))  # SQLite takes 10 s for each.
        with begun, found:
            assert (begun.conversations.all(), found.conversations.all()) == ([], [kept])
            for store in (begun, found):
                with store.database.read() as sql:
                    assert sql.execute("PRAGMA journal_mode").fetchone() == ("delete",)
                    assert sql.execute("PRAGMA synchronous").fetchone() == (2,)
        for database in (new, came):
            with Store.open(database) as store, Store.open(database) as other, Store.read(database) as reader:
                added = other.conversations.create("added")
                assert added in store.conversations.all() and added in reader.conversations.all()
