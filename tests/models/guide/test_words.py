"""A question and a wording of the index become the same terms if they ask the same."""

from __future__ import annotations

import pytest

from models.guide.words import name_terms, stem, terms, typed


@pytest.mark.parametrize(
    "one, other",
    [
        ("How do I unpack photos.tar.gz?", "extract {archive.tar.gz}"),
        ("delete the folder old-build/", "removing a directory {directory}"),
        ("what's using up disk space", "what is taking up disk space"),
        ("copy it to maria@10.0.0.7", "copy to {host}"),
        ("fetch https://example.org/a.iso", "download {url}"),
        ('find "out of memory" in logs', "search {text} in logs"),
        ("top ten biggest files", "first 25 largest files"),
    ],
)
def test_what_asks_the_same_has_the_same_terms(one: str, other: str) -> None:
    assert set(terms(one)) == set(terms(other)) != set()


@pytest.mark.parametrize(
    "one, other",
    [("unpack a.zip", "unpack a.tar.gz"), ("show the first lines", "show the last lines"), ("start it", "stop it")],
)
def test_what_asks_something_else_has_other_terms(one: str, other: str) -> None:
    assert set(terms(one)) != set(terms(other))


@pytest.mark.parametrize(
    "said", ["thanks!", "", "?", "Wie geht's?\n", "谢谢", "'", "`", "{", "{}", "*", "../", "~", "\x00"]
)
def test_any_text_has_terms_of_letters_and_digits(said: str) -> None:
    assert all(term.isalnum() and term.isascii() for term in terms(said))


def test_endings_of_words_are_cut_lightly() -> None:
    assert {stem(word) for word in ("rename", "renames", "renamed", "renaming")} == {"renam"}
    assert stem("process") == stem("processes") and stem("copies") == stem("copy")
    assert stem("ls") == "ls" and stem("less") != stem("les")


def test_a_page_is_found_by_its_name_as_it_is_typed() -> None:
    assert name_terms("git rev-list")[:2] == ("namegit", "namerevlist")
    assert name_terms("head") == ("namehead",), "who asks for the first line need not mean the page head"
    assert typed("use g++ or 7z, not a.out.") == ["use", "g++", "or", "7z", "not", "a.out"]
