"""The search of the pages that ship is as good as docs/benchmarks.md says, give or take a little."""

from __future__ import annotations

import json

import pytest

from benchmarks.retrieval import BUNDLED, DATA, SETS, main_program, measure, place, programs, read_set
from models.guide.pages import Pages
from models.guide.search import platforms_of, search
from tests.support.serving import REPOSITORY

LINUX = platforms_of("linux")


@pytest.fixture(scope="module")
def pages():
    opened = Pages.open(BUNDLED)
    yield opened
    opened.close()


def test_the_questions_of_the_measure_are_whole(pages):
    rows = [json.loads(line) for line in (DATA / "retrieval.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(rows) == len({row["id"] for row in rows}) == len({row["prompt"].lower() for row in rows}) == 150
    assert [row["half"] for row in rows].count("sealed") == 75
    assert all(any(map(pages.knows, row["programs"])) for row in rows)


@pytest.mark.parametrize("name", SETS)
def test_every_set_is_found_as_often_as_it_was_measured(pages, name):
    document = json.loads((REPOSITORY / "docs/benchmarks/retrieval.json").read_text(encoding="utf-8"))
    [measured] = [row for row in document["rows"] if row["set"] == name]
    row = measure(pages, name, LINUX)
    # Another version of SQLite may order two candidates of nearly the same score in another way.
    for key in ("top1", "top3", "top5", "command", "first"):
        assert abs(row.get(key, 0) - measured.get(key, 0)) <= 2, key


def test_each_question_has_a_right_program(pages):
    for name in SETS:
        assert all(question.programs for question in read_set(name, pages)), name


@pytest.mark.parametrize(
    "command, found, about",
    [
        ("sudo tar xf a", ["tar"], "tar"),
        ("cd x && A=1 make | tee log", ["cd", "make", "tee"], "make"),
        ("cat a | sort", ["cat", "sort"], "sort"),
        ("echo hello", ["echo"], "echo"),
        ("cat a", ["cat"], "cat"),
    ],
)
def test_the_program_that_a_command_is_about(command, found, about):
    assert programs(command) == found and main_program(command) == about


def test_the_place_of_the_first_right_hit(pages):
    [question] = [one for one in read_set("everyday", pages) if one.prompt == "How do I unpack a .tar.gz file?"]
    hits = search(pages, question.prompt, LINUX, 5)
    assert place(question, hits) == 1 and place(question, hits[:0]) is None
