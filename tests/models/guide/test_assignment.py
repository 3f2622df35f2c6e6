"""An example with what a question names: each thing in the place that it belongs to."""

from __future__ import annotations

import pytest

from models.guide.assignment import fill
from models.guide.mentions import Named, named
from models.guide.outline import Slot, perhaps, put


def slot(name: str, kind: str = "", form: str = "", placeholder: str = "x", *, optional: bool = False) -> Slot:
    return Slot(name, kind or name.rstrip("2"), form, optional, placeholder)


def things(question: str) -> list[Named]:
    return named(question, lambda word: word.isalpha() and len(word) < 6, lambda _: False)


DIRECTORY = slot("dir", "folder", "", ".", optional=True)
COPY = f"copy {slot('file')} to {slot('folder')}", f"cp {slot('file')} {slot('folder')}/"
RENAME = f"rename {slot('file')} to {slot('file2')}", f"mv {slot('file')} {slot('file2')}"
LINK = f"link {slot('name')} to {slot('file')}", f"ln -s {slot('file')} {slot('name')}"
FIND = (
    f"find files larger than {slot('size')} {perhaps(f'in {DIRECTORY}')}",
    f"find {DIRECTORY} -size +{slot('size', 'size', 'find', '100M')}",
)
PRINT = f"print {slot('text')}", f"echo '{slot('text', 'text', 'raw')}'"
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
        (WRITE, "'two words' > \"my notes.txt\"", "echo 'two words' > 'my notes.txt'"),
        (UNPACK, "gunzip core_1.gz", "gunzip core_1.gz"),  # An ending does not come twice.
        (UNPACK, "gunzip core_1.bz2", "gunzip x.gz"),
    ],
)
def test_things_find_their_places(example: tuple[str, str], question: str, wanted: str) -> None:
    assert fill(*example, things(question)).command == wanted


def test_the_task_says_what_was_said() -> None:
    said = "larger than 20 megabytes in ~/work"
    assert fill(*FIND, things("files over 20 megabytes in ~/work")).task == f"find files {said}"


def test_it_tells_what_found_no_place_and_what_stayed_empty() -> None:
    whole = fill(*COPY, things("copy a_1.txt to /srv/in"))
    assert (whole.used, whole.empty) == (1.0, 0)
    half = fill(*COPY, things("copy a_1.txt as of 3 march 2024"))
    assert half.used == 0.5 and half.empty == 1
    assert fill(*FIND, things("20 MB")).empty == 0, "a default is not empty"
    assert fill("list all", "ls -a", []).used == 0.0


def test_a_follow_up_keeps_what_the_question_before_named() -> None:
    before = things("files over 20 MB in ~/work")
    assert fill(*FIND, things("over 5 MB"), before).command == "find ~/work -size +5M"


def test_what_the_example_has_already_takes_no_place() -> None:
    todo = f"list all TODO notes in {slot('folder')}", f"grep -rn TODO {slot('folder', placeholder='.')}"
    filled = fill(*todo, things("list TODO notes"))
    assert filled.command == "grep -rn TODO ." and filled.used > 0.5


def test_what_is_said_perhaps_needs_its_slots_and_lines_keep_their_spaces() -> None:
    file, size = slot("file"), slot("size")
    text = f"list files {perhaps(f'like {file}')} {perhaps(f'over {size}, fast')}"
    for values, wanted in (({}, ""), ({"file": "a.md"}, " like a.md"), ({"size": "2M"}, " over 2M, fast")):
        assert put(text, lambda slot: values.get(slot.name)) == f"list files{wanted}"  # noqa: B023
    assert put(f"cat {file} << EOF\n  a  b\nEOF", lambda _: "y") == "cat y << EOF\n  a  b\nEOF"
