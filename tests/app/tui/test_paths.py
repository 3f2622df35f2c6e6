"""Completion of `@path` in real folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.tui.paths import completion_of_paths


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("notes.md", "name.txt", "with space.md", "src/main.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return tmp_path


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
