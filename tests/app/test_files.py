"""Files that are replaced whole or not at all and are private, and the log: what is written, and what never is."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from app import log as logs
from app.events import Done, Failed, ModeChanged, Stats
from app.files import create_private, current_folder, is_private, replace_file, write_private
from app.log import LogFile, note, open_log


def test_a_file_is_private_and_its_folder_is_made(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    write_private(path, "a\r\nb\n")
    assert path.read_bytes() == b"a\r\nb\n" and is_private(path)
    path.chmod(0o644)
    assert not is_private(path)
    write_private(path, "c")
    assert path.read_text() == "c" and is_private(path)


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    def pieces() -> Iterator[str]:
        yield "new"
        raise RuntimeError("half way")

    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(RuntimeError, match="half way"):
        replace_file(path, pieces())
    with pytest.raises(UnicodeEncodeError):
        replace_file(path, ["\ud800"])
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["file"]
    replace_file(path, ["a\ud800"], errors="replace", sync=False)
    assert path.read_text() == "a?" and os.listdir(tmp_path) == ["file"]


def test_a_private_file_is_created_once(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    create_private(path, exclusive=True)
    assert path.read_bytes() == b"" and is_private(path)
    path.write_text("text")
    create_private(path)
    with pytest.raises(FileExistsError):
        create_private(path, exclusive=True)
    assert path.read_text() == "text"


def test_the_folder_of_a_program_may_be_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("PWD", str(here))
    assert current_folder() == here
    here.rmdir()
    assert current_folder() == here and not here.exists()


# ---- the log ---------------------------------------------------------------------------------------------------------


SECRET = "s3cret-t0ken"


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Close the handler before the folder of the test goes."""
    yield
    if logs._current is not None:
        logging.getLogger().removeHandler(logs._current)
        logs._current.close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "outrider.log"


def test_what_a_reply_came_to_is_logged_and_what_it_said_is_not(file: Path) -> None:
    open_log(file, "info")
    note(ModeChanged("edge", "checked by shell-guide"))
    note(Done(False, "end", (1, 2, 3), (True, True, False), Stats(rounds=2, seconds=0.5)))
    note(Failed("the server says: never tell Bob", "incompatible"))
    text = file.read_text()
    assert "mode edge: checked by shell-guide" in text and "3 tokens, 2 of them verified, in 2 rounds" in text
    assert "no answer: incompatible" in text and "Bob" not in text
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_no_secret_and_no_escape_sequence_gets_in(file: Path) -> None:
    open_log(file, "debug", [SECRET])
    log = logging.getLogger("outrider.test")
    log.info("sent %s to \x1b]0;title\x07host\nas two lines", SECRET)
    log.info("Authorization: Bearer abc.def and password=hunter2; check the token of this remote")
    logging.getLogger("httpx").info("GET https://example.org/?q=words")
    try:
        try:
            raise ValueError("Invalid port: 'S3cret'")
        except ValueError:
            raise LookupError("HTTPS_PROXY is no address of a proxy") from None
    except LookupError as error:
        log.error("through http://anna:S3cret#9@host:1", exc_info=error)
    text = file.read_text()
    assert "S3cret" not in text and "anna" not in text and "no address of a proxy" in text and "@host:1" in text
    assert SECRET not in text and "abc.def" not in text and "hunter2" not in text and "\x1b" not in text
    assert "check the token of this remote" in text
    assert "sent [hidden] to host as two lines" in text and "example.org" not in text


@pytest.mark.parametrize("level", ["info", "debug"])
def test_what_an_error_says_is_for_debugging_only(file: Path, level: str) -> None:
    open_log(file, level)
    try:
        raise ValueError("a private question")
    except ValueError as error:
        logging.getLogger("outrider.test").error("it broke", exc_info=error)
    text = file.read_text()
    assert "builtins.ValueError" in text and "test_files.py" in text
    assert ("a private question" in text) == (level == "debug")


def test_a_log_that_cannot_be_written_disturbs_nobody(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "logs").write_text("in the way")
    open_log(tmp_path / "logs" / "outrider.log", "info")
    logging.getLogger("outrider.test").error("lost")
    assert capsys.readouterr() == ("", "")


def test_it_is_read_on_while_it_grows_and_turns_over(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "MOST_BYTES", 2000)
    reader, seen = LogFile(file), list[str]()
    assert reader.new() == []
    open_log(file, "info")
    for number in range(100):
        logging.getLogger("outrider.test").info("line %d", number)
        seen += reader.new()
    assert [line.rpartition(" ")[2] for line in seen[1:]] == [str(number) for number in range(100)]
    assert sorted(path.name for path in file.parent.iterdir()) == ["outrider.log", "outrider.log.1", "outrider.log.2"]
    assert LogFile(file).last(2) == seen[-2:] and LogFile(file).last(0) == []


def test_half_a_line_waits_for_its_end_and_foreign_bytes_are_harmless(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    reader = LogFile(path)
    with path.open("wb", buffering=0) as file:
        file.write(b"one\nha")
        assert reader.new() == ["one"]
        file.write(b"lf \x1b]52;c;AAAA\x07\xff\n")
        assert reader.new() == ["half \ufffd"]
