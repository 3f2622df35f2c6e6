"""Files and folders that may not be written: commands that only read still work, and errors name what is in the way."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from storage import NotADatabase, StorageFailed, StorageReadOnly, Store
from storage.migrations import MIGRATIONS
from tests.storage.stored import add, found
from tests.support.permissions import as_somebody

pytestmark = pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of an ordinary account, with a database. Not below `tmp_path`, whose parents only root may enter."""
    with as_somebody():
        home = Path(tempfile.mkdtemp(prefix="outrider-permissions-"))
        with Store.open(home / "data" / "outrider.db") as store:
            add(store, store.conversations.create("kept").id, "unpack a tarball")
    yield home / "data"
    for place in (home, home / "data"):
        if place.is_dir():
            place.chmod(0o700)
    shutil.rmtree(home)


@pytest.fixture
def path(folder: Path) -> Path:
    return folder / "outrider.db"


def titles(store: Store) -> list[str]:
    assert found(store, "tarball") == ["unpack a tarball"]
    return [one.title for one in store.conversations.all()]


def missing(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.parent.chmod(0o500)


def side_files(folder: Path) -> None:
    for name in ("outrider.db-wal", "outrider.db-shm"):
        (folder / name).touch(0o000)


def file_for_folder(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("a file")


def folder_for_file(folder: Path) -> None:
    (folder / "outrider.db").unlink()
    (folder / "outrider.db").mkdir()


@pytest.mark.parametrize(
    ("happens", "error", "told"),
    [
        (lambda folder: folder.chmod(0o500), StorageReadOnly, "folder {folder} may not be written"),
        (lambda folder: folder.chmod(0o000), StorageReadOnly, "folder {folder} may not be written"),
        (missing, StorageReadOnly, "folder {folder.parent} may not be written"),
        (side_files, StorageReadOnly, "file {folder}/outrider.db-wal may not be written"),
        (file_for_folder, StorageFailed, "{folder} is not a folder"),
        (folder_for_file, StorageReadOnly, "{folder}/outrider.db is a folder"),
    ],
    ids=["not writable", "not enterable", "missing", "side files", "a file for the folder", "a folder for the file"],
)
def test_what_is_in_the_way_is_named(
    folder: Path, path: Path, happens: Callable[[Path], None], error: type[StorageFailed], told: str
) -> None:
    happens(folder)
    with as_somebody(), pytest.raises(error) as raised:
        Store.open(path)
    said = str(raised.value)
    assert told.format(folder=folder) in said and "disk" not in said
    assert "OUTRIDER_HOME" in said or "may not be written" not in said


def test_a_file_that_may_not_be_written(path: Path) -> None:
    path.chmod(0o400)
    with as_somebody(), Store.open(path) as store:
        assert titles(store) == ["kept"]
        with pytest.raises(StorageReadOnly, match=f"file {path} may not be written"):
            store.conversations.create("new")


def test_a_folder_that_is_closed_while_it_is_used(folder: Path, path: Path) -> None:
    """Closing leaves the lock file of this window behind, and the next window removes it."""
    with as_somebody():
        store = Store.open(path)
        conversation = store.conversations.create("closed").id
        store.messages.add(conversation, "assistant", "", parent_id=None, status="pending")
        folder.chmod(0o500)
        store.close()
        folder.chmod(0o700)
        with Store.open(path) as store:
            assert titles(store) == ["closed", "kept"]
    assert os.listdir(folder) == [path.name]


# ---- commands that only read -----------------------------------------------------------------------------------------


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


def test_a_reader_waits_for_no_writer_and_sees_its_log(path: Path) -> None:
    """Also on a disk that cannot be written any more."""
    with as_somebody(), Store.open(path) as store:
        store.conversations.create("newer")
        with store.database.write(), Store.read(path) as reader:
            assert titles(reader) == ["newer", "kept"]
        path.parent.chmod(0o500)
        with Store.read(path) as reader:
            assert titles(reader) == ["newer", "kept"]
        path.parent.chmod(0o700)


def test_without_a_database_there_is_nothing_to_read_and_what_is_in_the_way_is_told(tmp_path: Path) -> None:
    with Store.read(tmp_path / "data" / "outrider.db") as store:
        assert store.conversations.all() == []
    assert list(tmp_path.iterdir()) == [], "none is made"
    (tmp_path / "outrider.db").write_bytes(b"hello " * 2000)
    with pytest.raises(NotADatabase, match="move it away"):
        Store.read(tmp_path / "outrider.db")
    with pytest.raises(StorageFailed, match="not a folder"):
        Store.read(tmp_path / "outrider.db" / "outrider.db")


def test_an_empty_database_and_one_of_an_older_version_are_brought_up_to_date(path: Path, tmp_path: Path) -> None:
    empty = tmp_path / "outrider.db"
    empty.touch()
    with Store.read(empty) as store:
        assert store.conversations.all() == []
    with as_somebody():
        with Store.open(path) as store, store.database.write() as sql:
            sql.execute("DELETE FROM _sqlite_migrations WHERE name = ?", (MIGRATIONS.known[-1],))
            sql.execute("DROP INDEX messages_by_summary")
            sql.execute("ALTER TABLE messages DROP COLUMN summary")
        with Store.read(path) as store:
            assert titles(store) == ["kept"]


def test_what_a_crash_left_is_ended(path: Path) -> None:
    def status() -> str:
        with Store.read(path) as reader:
            assert reader.messages.get(answer.id).text == "half"
            return reader.messages.get(answer.id).status

    with as_somebody():
        store = Store.open(path)
        conversation = store.conversations.all()[0]
        answer = store.messages.add(conversation.id, "assistant", "", parent_id=conversation.tip_id, status="pending")
        store.messages.checkpoint(answer.id, [], [], "half")
        assert status() == "streaming"
        store.close()
        path.parent.chmod(0o500)
        assert status() == "streaming"
        path.parent.chmod(0o700)
        assert status() == "stopped"
