"""`outrider shell` and `outrider fix` as commands of their own, without a shell around them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from app.cli.handover import COMMAND_FILE
from app.config import BUNDLED_DRAFTER
from app.shell.place import folder
from tests.support.commands import Outrider, runner


@pytest.fixture
def outrider(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Outrider:
    return runner(monkeypatch, capsys, tmp_path / "home", BUNDLED_DRAFTER)


@pytest.fixture(autouse=True)
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run").mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))


def test_the_script_is_valid_in_its_shell(outrider: Outrider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_SHELL_COMMAND_KEY", "ctrl-x ctrl-m")
    monkeypatch.setenv("OUTRIDER_SHELL_GHOST", "true")
    for shell in filter(shutil.which, ("bash", "zsh", "fish")):
        script = outrider("shell", shell).out
        assert folder() in script and not re.search("@[A-Z_]+@", script)
        (tmp_path / "script").write_text(script)
        ran = subprocess.run([shell, "-n", str(tmp_path / "script")], capture_output=True, text=True)
        assert (ran.returncode, ran.stderr) == (0, ""), shell


def test_a_key_that_is_none_is_named(outrider: Outrider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_SHELL_EXPLAIN_KEY", "hyper-q")
    told = outrider("shell", "bash")
    assert told.code == 2 and "OUTRIDER_SHELL_EXPLAIN_KEY" in told.err and "alt-m" in told.err


def test_without_a_helper_status_and_stop_say_so(outrider: Outrider) -> None:
    status = outrider("shell", "--status")
    assert (status.code, status.out) == (0, "No helper runs. The first key press in a shell starts one.\n")
    assert outrider("shell", "--stop").says(0, "No helper runs")
    assert not list(Path(folder()).glob("*.sock"))


def test_fix_prints_or_hands_over_a_mend(outrider: Outrider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nötes.txt").write_text("")
    told = outrider("fix", "cat ntöes.txt", "--code", "1")
    assert (told.code, told.out) == (0, "cat 'nötes.txt'\n") and "there is nötes.txt" in told.err
    file = tmp_path / "next"
    monkeypatch.setenv(COMMAND_FILE, str(file))
    monkeypatch.setenv("OUTRIDER_LAST_COMMAND", "cat ntöes.txt 2>&1 | outrider fix")
    for before in ("", "a longer text of before, which must go away\n" * 3):
        if before:
            file.write_text(before)
        told = outrider("fix", stdin="cat: ntöes.txt: No such file or directory\n")
        assert (told.code, told.out) == (0, "")
        assert file.read_text(encoding="utf-8") == "cat 'nötes.txt'\n" and file.stat().st_mode & 0o077 == 0
    monkeypatch.setenv(COMMAND_FILE, str(tmp_path))
    told = outrider("fix", stdin="cat: ntöes.txt: No such file or directory\n")
    assert told.out == "cat 'nötes.txt'\n", "nothing is lost"
    assert str(tmp_path) in told.err and COMMAND_FILE in told.err


def test_fix_without_a_command_or_after_success_says_so(outrider: Outrider, monkeypatch: pytest.MonkeyPatch) -> None:
    assert outrider("fix").says(2, "outrider shell bash")
    monkeypatch.setenv("OUTRIDER_LAST_COMMAND", "ls")
    monkeypatch.setenv("OUTRIDER_LAST_CODE", "0")
    assert outrider("fix").says(1, "succeeded")
