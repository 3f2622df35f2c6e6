"""A folder or a file that may not be written is told as that, and by its name, never as a full or broken disk."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage import StorageFailed, StorageReadOnly, Store
from tests.support.permissions import as_somebody

pytestmark = pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")


@pytest.fixture
def folder() -> Iterator[Path]:
    """Of that somebody, with a database in it. Not below `tmp_path`, whose parents are closed to others than root."""
    with as_somebody():
        home = Path(tempfile.mkdtemp(prefix="outrider-permissions-"))
        Store.open(home / "data" / "outrider.db").close()
    yield home / "data"
    for place in (home, home / "data"):
        if place.is_dir():
            place.chmod(0o700)
    shutil.rmtree(home)


def complaint(database: Path) -> str:
    with as_somebody(), pytest.raises(StorageReadOnly) as told:
        Store.open(database)
    return str(told.value)


def test_a_folder_that_may_not_be_written(folder: Path) -> None:
    folder.chmod(0o500)
    told = complaint(folder / "outrider.db")
    assert f"folder {folder} may not be written" in told and "OUTRIDER_HOME" in told and "disk" not in told


def test_a_folder_in_which_the_database_is_to_be_made(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.parent.chmod(0o500)
    assert f"folder {folder.parent} may not be written" in complaint(folder / "outrider.db")


def test_a_folder_that_may_not_be_entered(folder: Path) -> None:
    folder.chmod(0o000)
    assert f"folder {folder} may not be written" in complaint(folder / "outrider.db")


def test_a_file_that_may_not_be_written(folder: Path) -> None:
    (folder / "outrider.db").chmod(0o400)
    with as_somebody(), Store.open(folder / "outrider.db") as store:
        assert store.conversations.all() == []  # What is there can be read.
        with pytest.raises(StorageReadOnly) as told:
            store.conversations.create("new")
    assert f"file {folder / 'outrider.db'} may not be written" in str(told.value)


def test_a_side_file_that_may_not_be_written(folder: Path) -> None:
    (folder / "outrider.db-wal").touch(0o000)
    (folder / "outrider.db-shm").touch(0o000)
    assert f"file {folder / 'outrider.db-wal'} may not be written" in complaint(folder / "outrider.db")


def test_something_else_in_the_place_of_the_folder(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("a file")
    with as_somebody(), pytest.raises(StorageFailed) as told:
        Store.open(folder / "outrider.db")
    assert f"{folder} is not a folder" in str(told.value) and "disk" not in str(told.value)


def test_something_else_in_the_place_of_the_database(folder: Path) -> None:
    (folder / "outrider.db").unlink()
    (folder / "outrider.db").mkdir()
    assert f"{folder / 'outrider.db'} is a folder" in complaint(folder / "outrider.db")


def test_a_folder_that_is_closed_while_it_is_used(folder: Path) -> None:
    """Closing leaves the mark of this window behind, which the next one takes away."""
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
