"""Completion of `@path` in real folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.tui import paths as module
from app.tui.paths import completion_of_paths, paths


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("notes.md", "name.txt", ".hidden", "with space.md", "two\nlines", "src/main.py", "src/deep/a.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return tmp_path


def test_folders_come_first_and_end_with_a_slash(folder: Path) -> None:
    assert paths("", folder) == ["src/", "name.txt", "notes.md", "with space.md"]
    assert paths("n", folder) == ["name.txt", "notes.md"]
    assert paths("src/", folder) == ["src/deep/", "src/main.py"]
    assert paths(".h", folder) == [".hidden"]
    assert paths("", folder, 2) == ["src/", "name.txt"]


@pytest.mark.parametrize("typed", ["gone/", "notes.md/", "zz", "~nobody-has-this-name/", "a\0b/"])
def test_where_there_is_nothing_nothing_is_offered(folder: Path, typed: str) -> None:
    assert paths(typed, folder) == []


def test_a_home_and_a_whole_path_are_read_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder))
    assert paths("~/sr", Path("/")) == ["~/src/"]
    assert paths(f"{folder}/src/m", Path("/")) == [f"{folder}/src/main.py"]


def test_a_huge_folder_is_read_in_part(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "READ", 1)
    assert len(paths("", folder)) <= 1


@pytest.mark.parametrize(("text", "start"), [("@no", 1), ("see @no", 5), ("a\nb @no", 5), ("(@no", 2)])
def test_an_at_sign_begins_a_path_at_the_start_of_a_word(folder: Path, text: str, start: int) -> None:
    completion = completion_of_paths(folder)(text, len(text))
    assert completion is not None and (completion.start, completion.end) == (start, len(text))
    assert [one.text for one in completion.candidates] == ["notes.md"] and not completion.eager


def test_a_space_has_a_backslash_before_it(folder: Path) -> None:
    for text in ("@wi", "@with\\ sp"):
        completion = completion_of_paths(folder)(text, len(text))
        assert completion is not None and completion.start == 1
        assert [(one.text, one.label) for one in completion.candidates] == [("with\\ space.md", "with space.md")]


@pytest.mark.parametrize("text", ["", "no", "me@no", "@no ", "@a@no", "@no\n"])
def test_other_text_begins_none(folder: Path, text: str) -> None:
    assert completion_of_paths(folder)(text, len(text)) is None
