"""What a question names, the marks of names, and an example with each thing in the place that it belongs to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.guide.assignment import fill
from models.guide.mentions import Named, named
from models.guide.names import MARKS, Marks, NoMarks, marked, names, names_said
from models.guide.outline import Slot, perhaps

ONE, TWO, *_, LAST = MARKS


@pytest.mark.parametrize(
    ("question", "wanted"),
    [
        ("rename report_final2.docx to q3-summary.docx", ["report_final2", "q3-summary"]),
        ("copy notes.txt to anna@files.example.org:/srv/in/", ["notes", "anna@files.example.org:/srv/in"]),
        ("what is in backup.tar.gz?", ["backup"]),
        ("is ~/photos/2021 larger than ./old?", ["~/photos/2021", "./old"]),
        ("get https://localhost:8080/wiki", ["https://localhost:8080/wiki"]),
        ("reach 2001:db8::17 at 4:15, note: soon", ["2001:db8::17"]),
        ("who listens on port 8443", ["8443"]),
        ("ssh to web01 as deploy", ["web01"]),
        ("the first 10 lines of a gzip-compressed archive, read-only", []),
        ("convert to mp4 with x264 and make a sha256 sum of a tar.gz, a .tar.xz", []),
        ("all .txt files, all *.py files, --force, -n", []),
    ],
)
def test_what_is_a_name(question: str, wanted: list[str]) -> None:
    assert [question[start:end] for start, end in names(question)] == wanted


def test_a_question_is_read_with_marks_that_depend_on_the_questions_before_alone() -> None:
    marks = Marks()
    assert marks.read("rename a_b.txt to c_d.txt") == f"rename a_b{ONE}.txt to c_d{TWO}.txt"
    assert marks.said("mv a_b.txt c_d.txt") == f"mv {ONE}.txt {TWO}.txt"
    assert marks.shown(f"mv {ONE}.txt {TWO}.txt") == "mv a_b.txt c_d.txt"
    assert marks.shown(f"rm {LAST}x") == "rm x", "no name has that mark"
    assert Marks().read(f"show {ONE} now") == "show  now", "marks that somebody wrote are taken out"
    plain = NoMarks(["show a_1"])
    assert plain.read("show a_1") == "show a_1" and plain.said("cat a_1") == "cat a_1"
    asked = ["unpack a_1.zip", "list b_2/", "delete a_1.zip"]
    whole = marked([("user", question) for question in asked])
    assert [Marks(asked[:at]).read(question) for at, question in enumerate(asked)] == [text for _, text in whole]


def test_of_two_names_the_longer_counts_each_keeps_its_mark_and_a_ninth_takes_the_first_one() -> None:
    marks = Marks(["compare build_1 with build_1/lib_x"])
    assert marks.said("diff -r build_1 build_1/lib_x rebuild_1 build_12") == f"diff -r {ONE} {TWO} rebuild_1 build_12"
    marks = Marks([f"look at file_{number} and file_0" for number in range(8)])
    assert marks.said("file_0 file_7") == ONE + " " + LAST
    assert marks.read("and file_8") == f"and file_8{ONE}"
    assert marks.said("file_0 file_8") == f"file_0 {ONE}"


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


# ---- by its form -----------------------------------------------------------------------------------------------------


KNOWN = {
    "copy", "the", "file", "files", "to", "a", "user", "branch", "port", "larger", "than", "find", "in", "of",
    "lines", "column", "every", "restart", "install", "word", "group", "create", "push", "jpg", "day", "at", "show",
    "line", "called", "numpy", "with",
}  # fmt: skip


def read(question: str) -> list[Named]:
    return named(
        question, lambda word: word in KNOWN, lambda word: word in ("nginx", "git"), lambda word: word == "numpy"
    )


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
        ("the third column of a.tsv since 3 march 2024", {"the third column": "column", "3 march 2024": "date"}),
        ("find 'connection refused' in a.log", {"connection refused": "word", "a.log": "file"}),
        ("delete the folder old_thumbs.2016", {"old_thumbs.2016": "folder"}),
        ("install numpy with it", {"numpy": "package"}),
        ("copy the file access.log.1", {"access.log.1": "file"}),
        ("cherry pick e03bb17 of *.log", {"e03bb17": "commit", "*.log": "glob"}),
    ],
)
def test_by_its_form(question: str, wanted: dict[str, str]) -> None:
    found = {one.text: one for one in read(question)}
    for text, kind in wanted.items():
        assert found[text].kinds[kind] == max(found[text].kinds.values()), (text, best(found[text]))


@pytest.mark.parametrize(
    "question",
    ["push branch", "copy numpy", "install the line", "md5 and sha256", "step-by-step, BUT a user", "a .tar.gz", ""],
)
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


# ---- in an example ---------------------------------------------------------------------------------------------------


def slot(name: str, kind: str = "", form: str = "", placeholder: str = "x", *, optional: bool = False) -> Slot:
    return Slot(name, kind or name.rstrip("2"), form, optional, placeholder)


def things(question: str) -> list[Named]:
    return named(question, lambda word: word.isalpha() and len(word) < 6, lambda _: False, lambda _: False)


DIRECTORY = slot("dir", "folder", "", ".", optional=True)
COPY = f"copy {slot('file')} to {slot('folder')}", f"cp {slot('file')} {slot('folder')}/"
RENAME = f"rename {slot('file')} to {slot('file2')}", f"mv {slot('file')} {slot('file2')}"
LINK = f"link {slot('name')} to {slot('file')}", f"ln -s {slot('file')} {slot('name')}"
FIND = (
    f"find files larger than {slot('size')} {perhaps(f'in {DIRECTORY}')}",
    f"find {DIRECTORY} -size +{slot('size', 'size', 'find', '100M')}",
)
PRINT = f"print {slot('text')}", f"echo '{slot('text', 'text', 'raw')}'"
ENDING = f"find all {slot('ext')} files", f"find . -name '*.{slot('ext')}'"
WRITE = PRINT[0], f"{PRINT[1]} > {slot('file')}"
UNPACK = "decompress a file", f"gunzip {slot('file', 'file', 'raw')}.gz"
FORWARD = (
    f"forward port {slot('port')} to port {slot('port2')} of {slot('host')}",
    f"ssh -L {slot('port')}:localhost:{slot('port2')} {slot('host')}",
)


@pytest.mark.parametrize(
    ("example", "question", "wanted"),
    [
        (COPY, "copy a_1.txt to /srv/in", "cp a_1.txt /srv/in/"),
        (RENAME, "a_1.txt to b_2.txt", "mv a_1.txt b_2.txt"),
        (LINK, "link to build-8812 named latest", "ln -s build-8812 latest"),
        (FIND, "files over 20 MB", "find . -size +20M"),
        (FIND, "files over 20 MB in ~/work", "find ~/work -size +20M"),
        (FORWARD, "port 8080 to port 80 of web01.lan", "ssh -L 8080:localhost:80 web01.lan"),
        (COPY, "copy it", "cp x x/"),
        (PRINT, '"it\'s me"', "echo 'x'"),  # A quote does not end the quotes of a command.
        (ENDING, "all .py files", "find . -name '*.py'"),
        (ENDING, "files named gobo*", "find . -name '*.x'"),  # Nor does a pattern that needs quotes itself.
        (WRITE, "'two words' > \"my notes.txt\"", "echo 'two words' > 'my notes.txt'"),
        (UNPACK, "gunzip core_1.gz", "gunzip core_1.gz"),  # An ending does not come twice.
        (UNPACK, "gunzip core_1.bz2", "gunzip x.gz"),
    ],
)
def test_things_find_their_places(example: tuple[str, str], question: str, wanted: str) -> None:
    assert fill(*example, things(question)).command == wanted


def test_what_stayed_empty_is_told_and_a_follow_up_keeps_what_was_named() -> None:
    whole = fill(*COPY, things("copy a_1.txt to /srv/in"))
    assert (whole.used, whole.empty) == (1.0, 0)
    half = fill(*COPY, things("copy a_1.txt as of 3 march 2024"))
    assert half.used == 0.5 and half.empty == 1
    task = fill(*FIND, things("files over 20 megabytes in ~/work")).task
    assert task == "find files larger than 20 megabytes in ~/work", "it says what was said"
    assert fill(*FIND, things("20 MB")).empty == 0, "a default is not empty"
    assert fill("list all", "ls -a", []).used == 0.0
    before = things("files over 20 MB in ~/work")
    assert fill(*FIND, things("over 5 MB"), before).command == "find ~/work -size +5M"
    todo = f"list all TODO notes in {slot('folder')}", f"grep -rn TODO {slot('folder', placeholder='.')}"
    filled = fill(*todo, things("list TODO notes"))
    assert filled.command == "grep -rn TODO ." and filled.used > 0.5
