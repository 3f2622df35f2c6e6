"""Marks of names: what gets one, and that what was said becomes what was asked for, letter by letter."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.guide.names import MARKS, Marks, NoMarks, marked, names, names_said

ONE, TWO, *_, LAST = MARKS


@pytest.mark.parametrize(
    ("question", "wanted"),
    [
        ("rename report_final2.docx to q3-summary.docx", ["report_final2", "q3-summary"]),
        ("copy notes.txt to anna@files.example.org:/srv/in/", ["notes", "anna@files.example.org:/srv/in"]),
        ("what is in backup.tar.gz?", ["backup"]),
        ("is ~/photos/2021 larger than ./old?", ["~/photos/2021", "./old"]),
        ("get https://localhost:8080/wiki", ["https://localhost:8080/wiki"]),
        ("map 6390:6379 of redis:7.2-alpine", ["6390:6379", "redis:7.2-alpine"]),
        ("reach 2001:db8::17 at 4:15, note: soon", ["2001:db8::17"]),
        ("who listens on port 8443", ["8443"]),
        ("ssh to web01 as deploy", ["web01"]),
        ("the first 10 lines", []),
        ("a gzip-compressed archive, read-only", []),
        ("convert to mp4 with x264 and make a sha256 sum", []),
        ("all .txt files, all *.py files, --force, -n", []),
        ("a tar.gz, a .tar.xz", []),
    ],
)
def test_what_is_a_name(question: str, wanted: list[str]) -> None:
    assert [question[start:end] for start, end in names(question)] == wanted


def test_a_question_is_read_with_marks_and_its_answer_shown_without() -> None:
    marks = Marks()
    assert marks.read("rename a_b.txt to c_d.txt") == f"rename a_b{ONE}.txt to c_d{TWO}.txt"
    assert marks.said("mv a_b.txt c_d.txt") == f"mv {ONE}.txt {TWO}.txt"
    assert marks.shown(f"mv {ONE}.txt {TWO}.txt") == "mv a_b.txt c_d.txt"
    assert marks.shown(f"rm {LAST}x") == "rm x", "no name has that mark"
    assert Marks().read(f"show {ONE} now") == "show  now", "marks that somebody wrote are taken out"
    plain = NoMarks(["show a_1"])
    assert plain.read("show a_1") == "show a_1" and plain.said("cat a_1") == "cat a_1"


def test_a_name_inside_a_word_is_none_and_of_two_names_the_longer_one_counts() -> None:
    marks = Marks(["compare build_1 with build_1/lib_x"])
    assert marks.said("diff -r build_1 build_1/lib_x rebuild_1 build_12") == f"diff -r {ONE} {TWO} rebuild_1 build_12"


def test_a_name_keeps_its_mark_and_a_ninth_name_takes_the_first_one() -> None:
    marks = Marks([f"look at file_{number} and file_0" for number in range(8)])
    assert marks.said("file_0 file_7") == ONE + " " + LAST
    assert marks.read("and file_8") == f"and file_8{ONE}"
    assert marks.said("file_0 file_8") == f"file_0 {ONE}"


def test_marks_depend_on_the_questions_before_alone() -> None:
    asked = ["unpack a_1.zip", "list b_2/", "delete a_1.zip"]
    whole = marked([("user", question) for question in asked])
    assert [Marks(asked[:at]).read(question) for at, question in enumerate(asked)] == [text for _, text in whole]


@pytest.mark.parametrize(
    ("said", "text", "wanted"),
    [
        ("ls", "ls -a", None),
        (f"mv {ONE}.txt {TWO}.txt", "mv a_b.txt c_d.txt", {ONE: "a_b", TWO: "c_d"}),
        (f"cp {TWO} {TWO}.old", "cp x_y x_y.old", {TWO: "x_y"}),
        (f"cp {TWO} {TWO}.old", "cp x_y x_z.old", None),
        (f"cat {ONE}", "cat ", {ONE: ""}),
        (f"cat {ONE}", "cat a b", None),
    ],
)
def test_an_answer_tells_its_names(said: str, text: str, wanted: dict[str, str] | None) -> None:
    assert names_said(said, text) == wanted


name = st.from_regex(r"[a-z]{1,6}[_/][a-z0-9]{1,6}", fullmatch=True)


@given(st.lists(name, min_size=1, max_size=6, unique=True), st.data())
def test_no_letter_of_a_name_is_lost(used: list[str], data: st.DataObject) -> None:
    answer = " ".join(data.draw(st.lists(st.sampled_from([*used, "tar", "-x", "f.txt"]), max_size=9)))
    marks = Marks([" with ".join(used)])
    said = marks.said(answer)
    assert not any(one in said.split() for one in used)
    assert marks.shown(said) == answer
    known = names_said(said, answer)
    assert known is not None and Marks.of(known).shown(said) == answer
