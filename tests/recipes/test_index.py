"""The recipe of the pages: the same input gives the same file, and a bad page is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from models.guide.outline import slots, unfilled
from recipes.shell_guide.everyday import Need
from recipes.shell_guide.index import counts, main, need_outline, page_outline
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


@pytest.mark.parametrize(
    ("name", "command", "types"),
    [
        ("cp", "cp path/to/file path/to/directory", ["file", "folder"]),
        ("curl", "curl https://example.com/file.zip -o archive.zip", ["url", "archive"]),
        ("ssh", "ssh username@example.com -p port", ["user", "host", "port"]),
        ("docker image", "docker image ls", []),
        ("apt", "sudo apt install package", ["package"]),
        ("awk", "awk '{print $1}' path/to/file", ["file"]),
    ],
)
def test_placeholders_of_pages_are_slots(name: str, command: str, types: list[str]) -> None:
    outline = page_outline(name, command)
    assert [slot.type for slot, _ in slots(outline)] == types
    assert unfilled(outline) == command


def test_slots_of_needs_know_where_they_stand() -> None:
    outline = need_outline("grep '{pattern}' {file} | head -n 10 > {{a,b}}", typed=True)
    assert [(slot.type, slot.form) for slot, _ in slots(outline)] == [("pattern", "raw"), ("file", "")]
    assert unfilled(outline) == "grep 'pattern' path/to/file | head -n 10 > {a,b}"


def test_a_number_that_a_question_names_is_a_slot() -> None:
    need = Need("head", "show the first 10 lines", "head -n 10 {file}", ("first 10 lines of {file}",))
    assert counts(need) == ["10"]
    assert counts(Need("chmod", "make it private", "chmod 600 {file}", ("chmod 600 {file}",))) == []
    assert counts(Need("head", "show lines", "head -n 10 {file}", ("first lines of {file}",))) == []
