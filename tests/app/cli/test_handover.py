"""A command that goes from the chat to the person's shell."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.cli.handover import COMMAND_FILE, hand_over

COMMAND = "tar xf 'a b.tgz'\nls ünïcode"


def test_it_is_printed_where_no_file_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    hand_over(COMMAND, {})
    out, err = capsys.readouterr()
    assert out == f"{COMMAND}\n" and not err


def test_it_goes_to_the_file_that_the_shell_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "command"
    file.write_text("a longer text of before, which must go away\n" * 3)
    hand_over(COMMAND, {COMMAND_FILE: str(file)})
    assert file.read_text(encoding="utf-8") == f"{COMMAND}\n"
    assert capsys.readouterr() == ("", "")


def test_a_new_file_is_private(tmp_path: Path) -> None:
    file = tmp_path / "command"
    hand_over(COMMAND, {COMMAND_FILE: str(file)})
    assert file.stat().st_mode & 0o077 == 0


def test_a_file_that_cannot_be_written_loses_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hand_over(COMMAND, {COMMAND_FILE: str(tmp_path)})
    out, err = capsys.readouterr()
    assert out == f"{COMMAND}\n" and str(tmp_path) in err and COMMAND_FILE in err
