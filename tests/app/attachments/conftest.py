from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with some files of each kind."""
    (tmp_path / "src" / "inner").mkdir(parents=True)
    (tmp_path / "src" / "start.py").write_text("print('hi')\n")
    (tmp_path / "src" / "inner" / "deep.md").write_text("# Deep\n")
    (tmp_path / "a b.txt").write_text("spaced\n")
    (tmp_path / "notes.txt").write_text("first\nsecond\n")
    (tmp_path / "test").mkdir()
    (tmp_path / "picture.png").write_bytes(PNG)
    return tmp_path


PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x03\x00\x00\x00\x02\x08\x02\x00\x00\x00rest of it"
