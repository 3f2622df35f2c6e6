"""Files that are replaced whole or not at all, and that only this account can read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.cli.archive import _format_for
from app.files import create_private, current_folder, is_private, replace_file, write_private
from app.remotes.registry import field_problem
from tests.support.permissions import as_somebody


def test_a_file_is_private_and_its_folder_is_made(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    write_private(path, "a\r\nb\n")
    assert path.read_bytes() == b"a\r\nb\n" and is_private(path)
    path.chmod(0o644)
    assert not is_private(path)
    write_private(path, "c")
    assert path.read_text() == "c" and is_private(path)


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    def pieces() -> Iterator[str]:
        yield "new"
        raise RuntimeError("half way")

    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(RuntimeError, match="half way"):
        replace_file(path, pieces())
    with pytest.raises(UnicodeEncodeError):
        replace_file(path, ["\ud800"])
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["file"]
    replace_file(path, ["a\ud800"], errors="replace", sync=False)
    assert path.read_text() == "a?" and os.listdir(tmp_path) == ["file"]


def test_a_private_file_is_created_once(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    create_private(path, exclusive=True)
    assert path.read_bytes() == b"" and is_private(path)
    path.write_text("text")
    create_private(path)
    with pytest.raises(FileExistsError):
        create_private(path, exclusive=True)
    assert path.read_text() == "text"


def test_places_that_this_account_may_not_see_are_told(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o000)
    with as_somebody():
        assert field_problem("ca", str(closed / "ca.pem")) == "there is no such file"
        assert _format_for(closed / "a.md", None) == "md"
    assert field_problem("ca", "~nobody-of-this-name/ca.pem") == "there is no such file"


def test_the_folder_of_a_program_may_be_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("PWD", str(here))
    assert current_folder() == here
    here.rmdir()
    assert current_folder() == here and not here.exists()
