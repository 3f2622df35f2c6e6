"""The search finds the example that fits, in the words of people, on the platform that they have."""

from __future__ import annotations

import string
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from models.guide.pages import FILE, Pages
from models.guide.search import platforms_of, search
from recipes.shell_guide.index import write
from tests.support.guide_pages import page

LINUX = platforms_of("linux")


def first(pages: Pages, question: str, platforms: tuple[str, ...] = LINUX, before: str = "") -> str:
    hits = search(pages, question, platforms, before=before)
    return hits[0].example.command if hits else ""


@pytest.mark.parametrize(
    "question, command",
    [
        ("How do I unpack photos.tar.gz?", "tar xzf archive.tar.gz"),
        ("what's inside this tar archive", "tar tf path/to/archive.tar"),
        ("what is eating all of my disk", "du -h | sort -h"),
        ("sort data.csv by the third column", "sort -k 2 file"),
        ("lsit the contents of a tar archvie", "tar tf path/to/archive.tar"),
        ("how do I `sort` this?", "sort file"),
        ("keep the terminal after logging out", "tmux new -s name"),
    ],
)
def test_the_example_that_fits_comes_first(pages: Pages, question: str, command: str) -> None:
    assert first(pages, question) == command


def test_a_word_with_hyphens_is_a_name_unless_many_examples_have_its_parts_together(tmp_path: Path) -> None:
    each = [
        (f"List non-empty {thing} of a folder", f"list{at} folder") for at, thing in enumerate(string.ascii_lowercase)
    ]
    write(
        tmp_path / FILE,
        [
            page("common", "lister", "Lists.", *each),
            page("common", "rm", "Delete.", ("Delete a folder", "rm -r folder")),
        ],
        [],
    )
    pages = Pages.open(tmp_path / FILE)
    assert [one.text for one in pages.named("delete the non-empty folder")] == []
    assert [one.text for one in pages.named("delete the list-empty folder")] == ["list-empty"]
    pages.close()


@pytest.mark.parametrize("said", ["", "谢谢", "frobnicate zyxgy", "how do I do this?", '"', "a AND b) OR *"])
def test_what_is_about_no_page_finds_nothing(pages: Pages, said: str) -> None:
    assert search(pages, said, LINUX) == []


def test_a_page_of_the_devices_platform_comes_first(pages: Pages) -> None:
    question = "show the address of this device"
    assert first(pages, question) == "ip address"
    assert first(pages, question, platforms_of("darwin")) == "ipconfig getifaddr en0"
    assert first(pages, question, platforms_of("win32")) == "ipconfig /all"
    assert first(pages, question + " on macOS") == "ipconfig getifaddr en0"
    assert first(pages, question + " on Windows", platforms_of("darwin")) == "ipconfig /all"


def test_no_command_comes_twice_and_an_earlier_question_says_what_this_one_is_about(pages: Pages) -> None:
    hits = search(pages, "tar archive", LINUX, 9)
    commands = [hit.example.command for hit in hits]
    assert len(commands) == len(set(commands)) > 2
    assert search(pages, "tar archive", LINUX, 2) == hits[:2]
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert first(pages, "and from high to low?", before="order report.txt numerically") == "sort -rn path/to/file"


@pytest.mark.parametrize(
    "pasted",
    ["x" * 4_000_000, "/" * 300_000, " ".join(f"word{n}" for n in range(99_999)), "a." * 99_999, "`" * 99_999],
    ids=["one word", "slashes", "many words", "dots", "backticks"],
)
def test_what_is_pasted_after_a_question_does_not_hold_it_up(pages: Pages, pasted: str) -> None:
    assert first(pages, f"untar photos.tar.gz\n{pasted}") == "tar xzf archive.tar.gz"
    assert first(pages, "and then?", before=f"untar photos.tar.gz\n{pasted}") == "tar xzf archive.tar.gz"


def test_the_same_question_finds_the_same_in_every_thread(pages: Pages) -> None:
    questions = ["unpack a.tar.gz", "show the address", "sort by a column", "commit staged files"] * 5
    alone = [search(pages, question, LINUX) for question in questions]
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(lambda question: search(pages, question, LINUX), questions)) == alone
