"""The recipe of the pages: the same input gives the same file, and a bad page is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drafter.guide.pages import Pages
from recipes.shell_guide.index import command_terms, main, programs_of
from tests.support.guide_pages import PAGES, write_pages

pytestmark = pytest.mark.training


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    one, other = write_pages(tmp_path / "one.db"), write_pages(tmp_path / "other.db")
    assert one.read_bytes() == other.read_bytes()
    assert write_pages(one).read_bytes() == other.read_bytes(), "a file that is there is replaced"


def test_the_command_takes_every_page_and_the_everyday_needs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = tmp_path / "pages.jsonl", tmp_path / "pages.db"
    source.write_text("".join(json.dumps(page) + "\n" for page in PAGES))
    main(["--pages", str(source), "--out", str(out)])
    assert f"{out.stat().st_size:,} bytes" in capsys.readouterr().out
    pages = Pages.open(out)
    for page in PAGES:
        assert pages.page(page["name"], page["platform"]) is not None
    assert pages.count > 2_000, "the everyday needs are in it"
    pages.close()


def test_a_line_that_is_no_page_is_named(tmp_path: Path) -> None:
    (tmp_path / "pages.jsonl").write_text(json.dumps(PAGES[0]) + '\n{"name": "x"}\n')
    with pytest.raises(ValueError, match=r"pages\.jsonl:2 is not a tldr page"):
        main(["--pages", str(tmp_path / "pages.jsonl"), "--out", str(tmp_path / "pages.db")])


@pytest.mark.parametrize(
    "command, found",
    [
        ("sudo du -h | sort -rh | head", ["du", "sort", "head"]),
        ("LC_ALL=C grep -r x . && echo $(date)", ["grep", "echo", "date"]),
        ("find . -exec rm {} +", ["find", "rm"]),
        ("find . -print0 | xargs -0 wc -l", ["find", "wc"]),
        ("path/to/program", []),
    ],
)
def test_programs_of_a_command(command: str, found: list[str]) -> None:
    assert list(programs_of(command)) == found


def test_what_a_question_may_name_of_a_command() -> None:
    assert command_terms("tar --extract --file photos.tar.gz") == ["tar", "extract", "fil", "dottargz", "dottar"]
