"""An error about a folder or file that may not be written names it, and never blames a full or broken disk."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from storage import StorageFailed, StorageReadOnly, Store
from tests.support.permissions import as_somebody

pytestmark = pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of an ordinary account, with a database. Not below `tmp_path`, whose parents only root may enter."""
    with as_somebody():
        home = Path(tempfile.mkdtemp(prefix="outrider-permissions-"))
        Store.open(home / "data" / "outrider.db").close()
    yield home / "data"
    for place in (home, home / "data"):
        if place.is_dir():
            place.chmod(0o700)
    shutil.rmtree(home)


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
    folder: Path, happens: Callable[[Path], None], error: type[StorageFailed], told: str
) -> None:
    happens(folder)
    with as_somebody(), pytest.raises(error) as raised:
        Store.open(folder / "outrider.db")
    said = str(raised.value)
    assert told.format(folder=folder) in said and "disk" not in said
    assert "OUTRIDER_HOME" in said or "may not be written" not in said


def test_a_file_that_may_not_be_written(folder: Path) -> None:
    (folder / "outrider.db").chmod(0o400)
    with as_somebody(), Store.open(folder / "outrider.db") as store:
        assert store.conversations.all() == []  # Reading works.
        with pytest.raises(StorageReadOnly) as told:
            store.conversations.create("new")
    assert f"file {folder / 'outrider.db'} may not be written" in str(told.value)


def test_a_folder_that_is_closed_while_it_is_used(folder: Path) -> None:
    """Closing leaves the lock file of this window behind, and the next window removes it."""
    with as_somebody():
        store = Store.open(folder / "outrider.db")
        conversation = store.conversations.create("closed").id
        store.messages.add(conversation, "assistant", "", parent_id=None, status="pending")
        folder.chmod(0o500)
        store.close()
        folder.chmod(0o700)
        store = Store.open(folder / "outrider.db")
        assert [found.title for found in store.conversations.all()] == ["closed"]
        store.close()
    assert [path.name for path in folder.iterdir()] == ["outrider.db"]
