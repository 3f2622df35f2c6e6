"""What a question names, by its form and by the words beside it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.guide.mentions import Named, named

KNOWN = {
    "copy", "the", "file", "files", "to", "a", "user", "branch", "port", "larger", "than", "find", "in", "of",
    "lines", "column", "every", "restart", "install", "word", "group", "create", "push", "jpg", "day", "at", "show",
    "line", "called",
}  # fmt: skip


def read(question: str) -> list[Named]:
    return named(question, lambda word: word in KNOWN, lambda word: word in ("nginx", "git"))


def best(one: Named) -> str:
    return max(one.kinds, key=lambda kind: one.kinds[kind])


@pytest.mark.parametrize(
    ("question", "wanted"),
    [
        ("copy report_2.pdf to /srv/in", {"report_2.pdf": "file", "/srv/in": "folder"}),
        ("ssh to lena@10.0.0.7 on port 2222", {"lena@10.0.0.7": "email", "2222": "port"}),
        ("can i reach 2001:db8::17 or example.org", {"2001:db8::17": "ip", "example.org": "host"}),
        ("get https://example.org/a.csv?x=1.", {"https://example.org/a.csv?x=1": "url"}),
        ("clone git@example.org:ana/tool.git", {"git@example.org:ana/tool.git": "repo"}),
        ("files larger than 20 megabytes", {"20 megabytes": "size"}),
        ("since 3 march 2024", {"3 march 2024": "date"}),
        ("the third column of a.tsv", {"the third column": "column", "a.tsv": "file"}),
        ("find *.log files", {"*.log": "glob"}),
        ("find 'connection refused' in a.log", {"connection refused": "word", "a.log": "file"}),
        ("cherry pick e03bb17", {"e03bb17": "commit"}),
    ],
)
def test_by_its_form(question: str, wanted: dict[str, str]) -> None:
    found = {one.text: one for one in read(question)}
    for text, kind in wanted.items():
        assert found[text].kinds[kind] == max(found[text].kinds.values()), (text, best(found[text]))


@pytest.mark.parametrize(
    ("question", "text", "kind"),
    [
        ("give it to user caddy", "caddy", "user"),
        ("restart nginx", "nginx", "service"),
        ("a branch called install", "install", "branch"),
        ("put lukas in the dialout group", "dialout", "group"),
        ("every parquet file", "parquet", "glob"),
    ],
)
def test_by_the_word_beside_it(question: str, text: str, kind: str) -> None:
    found = {one.text: one for one in read(question)}
    assert best(found[text]) == kind


@pytest.mark.parametrize("question", ["push branch", "md5 and sha256", "step-by-step, BUT a user", "a .tar.gz", ""])
def test_plain_words_are_no_names(question: str) -> None:
    assert [one.text for one in read(question)] == []


def test_values_have_the_forms_that_commands_type() -> None:
    size, age = read("larger than 2 GB in two weeks")
    assert size.value("size").forms == {"": "2G", "find": "2G", "bytes": str(2 * 2**30), "number": "2"}
    assert age.value("age").forms["newer"] == "-mtime -14" and age.value("age").forms["date"] == "2 weeks ago"
    (spaced,) = read('"my notes.txt"')
    assert spaced.value("file").forms[""] == "'my notes.txt'" and spaced.value("file").forms["stem"] == "'my notes'"
    (clock,) = read("7:05 pm")
    assert clock.value("clock").forms == {"": "19:05", "hour": "19", "minute": "5"}


@given(st.text(alphabet="ab1 ./:@-_*'\"~,25Mgpm\n", max_size=60))
def test_any_text_can_be_read_and_no_letter_belongs_to_two_things(text: str) -> None:
    end = 0
    for one in read(text):
        assert text[one.at : one.at + len(one.text)] == one.text and one.at >= end
        end = one.at + len(one.text)
        assert all(one.value(kind).forms[""] for kind in one.kinds)
