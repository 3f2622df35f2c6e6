"""The file of pages: what is in it, and what is said of a file that cannot be read."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from models.config import DrafterCorrupt, DrafterMissing
from models.guide.pages import OWN, Example, Pages
from tests.support.guide_pages import write_pages


def test_a_page_has_its_description_and_its_own_examples(pages: Pages) -> None:
    found = pages.page("tar", "common")
    assert found is not None and found.description.startswith("Archiving utility. More information")
    assert found.examples[0] == Example("extract a compressed archive file", "tar xf path/to/archive.tar.gz")
    assert len(found.examples) == 3, "Outrider's own example of tar does not stand on the page"
    assert pages.page("tar", "osx") is None and pages.page("nothing", "common") is None
    choices, own = pages.page("systemctl", "linux"), pages.page("tmux", OWN)
    assert choices is not None and own is not None, "what tldr has no page of is Outrider's own"
    assert [one.command for one in choices.examples] == ["systemctl start unit", "systemctl stop unit"]
    assert [one.command for one in own.examples] == ["tmux new -s name"]
    assert "tldr-pages team" in pages.licence and "creativecommons.org/licenses/by/4.0" in pages.licence


def test_the_first_platform_that_has_the_page_gives_it(pages: Pages) -> None:
    found = pages.find("ipconfig", ("linux", "windows", "osx"))
    assert found is not None and found.platform == "windows"
    assert pages.find("ipconfig", ("linux", "common")) is None


def test_programs_are_those_of_pages_and_those_that_examples_run(pages: Pages) -> None:
    assert all(pages.knows(name) for name in ("tar", "git", "untar", "open", "sort", "tmux"))
    assert not pages.knows("frobnicate") and not pages.knows("") and not pages.knows("commit")
    assert pages.programs() >= {"tar", "tmux", "du"}


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DrafterMissing, match=r"pages\.db is missing"):
        Pages.open(tmp_path / "pages.db")


@pytest.mark.parametrize("content", [b"", b"no database at all" * 99, b"SQLite format 3\x00" + b"\xff" * 4096])
def test_a_file_of_another_kind_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "pages.db").write_bytes(content)
    with pytest.raises(DrafterCorrupt, match="Reinstall"):
        Pages.open(tmp_path / "pages.db")


def test_a_newer_format_is_refused_with_advice(tmp_path: Path) -> None:
    path = write_pages(tmp_path / "pages.db")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE facts SET value = '99' WHERE name = 'format'")
    with pytest.raises(DrafterCorrupt, match="Update outrider"):
        Pages.open(path)


def test_damage_that_shows_later_is_told_too(tmp_path: Path) -> None:
    path = write_pages(tmp_path / "pages.db")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DROP TABLE programs")
    with closing(Pages.open(path)) as opened, pytest.raises(DrafterCorrupt, match="Reinstall"):
        opened.knows("tar")


def test_nothing_is_written_beside_the_file(tmp_path: Path) -> None:
    path = write_pages(tmp_path / "pages.db")
    before = path.read_bytes()
    with closing(Pages.open(path)) as opened:
        assert opened.vocabulary and opened.wordings("untar x.tar.gz")
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]
