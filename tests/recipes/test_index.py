"""The recipe of the pages: the same input gives the same file, and a bad page is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from recipes.shell_guide.index import main
from tests.support.guide_pages import PAGES, write_pages

pytestmark = pytest.mark.training


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    one, other = write_pages(tmp_path / "one.db"), write_pages(tmp_path / "other.db")
    assert one.read_bytes() == other.read_bytes()
    assert write_pages(one).read_bytes() == other.read_bytes(), "a file that is there is replaced"


def test_a_line_that_is_no_page_is_named(tmp_path: Path) -> None:
    (tmp_path / "pages.jsonl").write_text(json.dumps(PAGES[0]) + '\n{"name": "x"}\n')
    with pytest.raises(ValueError, match=r"pages\.jsonl:2 is not a tldr page"):
        main(["--pages", str(tmp_path / "pages.jsonl"), "--out", str(tmp_path / "pages.db")])
