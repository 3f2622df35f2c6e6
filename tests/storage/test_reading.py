"""Commands that only read: on a disk that takes no more, and beside a program that writes."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage import NotADatabase, StorageFailed, StorageReadOnly, Store
from storage.migrations import MIGRATIONS
from tests.support.permissions import as_somebody

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")


@pytest.fixture
def path() -> Iterator[Path]:
    """A database with one conversation, in a folder of an ordinary account."""
    with as_somebody():
        folder = Path(tempfile.mkdtemp(prefix="outrider-reading-"))
        path = folder / "outrider.db"
        with Store.open(path) as store:
            conversation = store.conversations.create("kept")
            store.messages.add(conversation.id, "user", "unpack a tarball", parent_id=None, status="done")
    yield path
    folder.chmod(0o700)
    shutil.rmtree(folder)


def titles(store: Store) -> list[str]:
    assert [hit.message.text for hit in store.search.messages("tarball")] == ["unpack a tarball"]
    return [one.title for one in store.conversations.all()]


@pytest.mark.parametrize("file", [0o600, 0o400])
def test_a_disk_that_cannot_be_written(path: Path, file: int) -> None:
    path.chmod(file)
    path.parent.chmod(0o500)
    with as_somebody():
        with pytest.raises(StorageReadOnly):
            Store.open(path)
        with Store.read(path) as store:
            assert titles(store) == ["kept"]
            with pytest.raises(StorageReadOnly):
                store.conversations.create("another")
        assert os.listdir(path.parent) == [path.name]


def test_a_disk_that_cannot_be_written_any_more(path: Path) -> None:
    """Another program has the database open, or left its log behind."""
    with as_somebody(), Store.open(path) as store:
        store.conversations.create("newer")
        path.parent.chmod(0o500)
        with Store.read(path) as reader:
            assert titles(reader) == ["newer", "kept"]
        path.parent.chmod(0o700)


def test_a_reader_waits_for_no_writer(path: Path) -> None:
    with as_somebody(), Store.open(path) as store, store.database.write(), Store.read(path) as reader:
        assert titles(reader) == ["kept"]


def test_without_a_database_there_is_nothing_to_read_and_none_is_made(tmp_path: Path) -> None:
    with Store.read(tmp_path / "data" / "outrider.db") as store:
        assert store.conversations.all() == []
    assert list(tmp_path.iterdir()) == []


def test_an_empty_database_and_one_of_an_older_version_are_brought_up_to_date(path: Path, tmp_path: Path) -> None:
    empty = tmp_path / "outrider.db"
    empty.touch()
    with Store.read(empty) as store:
        assert store.conversations.all() == []
    with as_somebody():
        with Store.open(path) as store, store.database.write() as sql:
            sql.execute("DELETE FROM _sqlite_migrations WHERE name = ?", (MIGRATIONS.known[-1],))
            sql.execute("DROP INDEX conversations_by_written")
            sql.execute("ALTER TABLE conversations DROP COLUMN written")
        with Store.read(path) as store:
            assert titles(store) == ["kept"]


def test_what_a_crash_left_is_ended(path: Path) -> None:
    with as_somebody():
        store = Store.open(path)
        conversation = store.conversations.all()[0]
        answer = store.messages.add(conversation.id, "assistant", "", parent_id=conversation.tip_id, status="pending")
        store.messages.checkpoint(answer.id, [], [], "half")
        with Store.read(path) as reader:
            assert reader.messages.get(answer.id).status == "streaming"
        store.close()
        path.parent.chmod(0o500)
        with Store.read(path) as reader:
            assert reader.messages.get(answer.id).text == "half"
        path.parent.chmod(0o700)
        with Store.read(path) as reader:
            assert reader.messages.get(answer.id).status == "stopped"


def test_what_is_in_the_way_is_told_as_by_any_other_command(tmp_path: Path) -> None:
    (tmp_path / "outrider.db").write_bytes(b"hello " * 2000)
    with pytest.raises(NotADatabase, match="move it away"):
        Store.read(tmp_path / "outrider.db")
    with pytest.raises(StorageFailed, match="not a folder"):
        Store.read(tmp_path / "outrider.db" / "outrider.db")
