"""Only a path that exists counts. What looks like one and does not exist is named, and the rest is ordinary text."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.attachments.mentions import dropped, mentions, shown_name, written


def kinds(text: str, folder: Path) -> list[tuple[str, str]]:
    return [(one.raw, one.kind) for one in mentions(text, folder)]


def test_a_file_is_found_and_what_looks_like_one_and_is_not_there_is_told(folder: Path) -> None:
    for text, raw, kind in (
        ("see @notes.txt, please", "notes.txt", "file"),
        ("(@notes.txt)", "notes.txt", "file"),
        ('read @"a b.txt" now', "a b.txt", "file"),
        ("read @'a b.txt'.", "a b.txt", "file"),
        (r"read @a\ b.txt now", "a b.txt", "file"),
        ("@./notes.txt", "./notes.txt", "file"),
        ("@notes.txt:12", "notes.txt", "file"),
        ("error in @notes.txt:3:4: what is it?", "notes.txt", "file"),
        ("@notes.txt#L3-L9", "notes.txt", "file"),
        ("“@notes.txt”", "notes.txt", "file"),
        ("**@notes.txt**", "notes.txt", "file"),
        ("看@notes.txt。", "notes.txt", "file"),
        ("@nothere.py", "nothere.py", "missing"),
        ("@~/no-such-file-here", "~/no-such-file-here", "missing"),
        ("@src/stert.py.", "src/stert.py", "missing"),
        ("@gone/", "gone/", "missing"),
        ('@"no such file"', "no such file", "missing"),
    ):
        assert kinds(text, folder) == [(raw, kind)]
        (mention,) = mentions(text, folder)
        assert text[mention.start] == "@" and text[mention.start : mention.end].strip("@\"'").replace("\\", "") == raw


def test_a_folder_needs_its_slash(folder: Path) -> None:
    assert kinds("@src/ is new", folder) == [("src/", "folder")]
    assert kinds("the @test of time", folder) == []
    assert kinds("@src/inner", folder) == [("src/inner", "missing")]
    assert kinds("all of @.", folder) == [(".", "folder")]
    (folder / "why?").write_text("because")
    assert kinds("@why? indeed", folder) == [("why?", "file")], "a name with punctuation"


def test_ordinary_text_stays_text(folder: Path) -> None:
    for text in (
        "write to user@host.com", "scp file.txt me@server:/tmp", "@dataclass and @property",
        "@app.route('/x') is a decorator", "npm i @types/node @angular/core", "@", "@@", "a @ b", "@()",
        "\u202e@\x1b[2J",
    ):  # fmt: skip
        assert mentions(text, folder) == []


def test_each_is_counted_once_and_the_number_is_bounded(folder: Path) -> None:
    assert kinds("@notes.txt and @notes.txt", folder) == [("notes.txt", "file")]
    assert len(mentions(" ".join(f"@gone{number}.py" for number in range(5000)), folder)) == 200
    assert kinds("@" + "a" * 100_000, folder) == []
    assert kinds("@" + "a/" * 10_000, folder) != []  # Too long for any system; it ends in a slash.
    assert kinds('@"nul\0.txt"', folder) == [("nul\0.txt", "missing")]


def test_a_home_folder_is_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder))
    assert kinds("@~/notes.txt", Path("/")) == [("~/notes.txt", "file")]


def test_no_name_tells_where_a_persons_files_lie() -> None:
    for path, shown in (
        ("./src//start.py", "src/start.py"), ("/home/anna/secret project/a.txt", "a.txt"), ("~/notes.md", "notes.md"),
        ("../up/", "up/"), ("src/", "src/"),
    ):  # fmt: skip
        assert shown_name(path) == shown


def test_a_dropped_file_is_found_however_the_terminal_writes_it(folder: Path) -> None:
    path = folder / "a b.txt"
    address = path.as_uri()
    ways = (f"'{path}'", f'"{path}"', str(path).replace(" ", r"\ "), f"{address}\n", f" {path} ")
    for paste in (*ways, f"file://localhost{address[7:]}"):
        assert dropped(paste) == path, paste
    quote = folder / "it's.txt"
    quote.write_text("x")
    assert dropped("'" + str(quote).replace("'", "'\\''") + "'") == quote


def test_a_paste_that_is_no_existing_path_stays_text(folder: Path) -> None:
    file = folder / "notes.txt"
    elsewhere = ("notes.txt", "/no/such/file", "file://elsewhere/etc/passwd", "")
    for paste in (*elsewhere, f"{file} and more", f"{file}\n{file}", "\x1b]52;c;x\x07", "x" * 10_000, "/\0"):
        assert dropped(paste) is None, paste


def test_a_path_is_written_so_that_it_is_found_again(folder: Path) -> None:
    for odd in ("odd).txt", "dot."):
        (folder / odd).write_text("x")
    for name in ("notes.txt", "a b.txt", "src", "src/inner/deep.md", "odd).txt", "dot."):
        (mention,) = mentions(written(folder / name, folder) or "", folder)
        assert mention.path.samefile(folder / name), name
    assert written(folder / "a b.txt", folder) == '@"a b.txt"'
    elsewhere = written(folder / "notes.txt", folder / "src")
    assert elsewhere is not None and mentions(elsewhere, folder / "src")[0].name == "notes.txt"


@pytest.mark.skipif(os.name == "nt", reason="no such names there")
def test_a_name_that_cannot_be_typed_is_not_written(folder: Path) -> None:
    for name in ("evil\x1b[2J.txt", "two\nlines.txt", "\u202egpj.exe", 'quo"te.txt'):
        (folder / name).write_text("x")
        assert written(folder / name, folder) is None, name
