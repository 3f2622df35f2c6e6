"""`outrider log` on a terminal and in a pipe."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import Outrider
from tests.support.patience import PATIENCE_SECONDS
from tests.support.serving import REPOSITORY


@pytest.fixture
def file(home: Path) -> Path:
    (home / "logs").mkdir(parents=True)
    return home / "logs" / "outrider.log"


def test_it_prints_the_end_and_where_it_is(outrider: Outrider, file: Path) -> None:
    assert outrider("log") == (0, "", "")
    file.write_text("".join(f"line {number}\n" for number in range(80)))
    assert outrider("log", "--path").out == f"{file}\n"
    assert outrider("log").out.splitlines() == [f"line {number}" for number in range(30, 80)]
    assert outrider("log", "-n", "2").out == "line 78\nline 79\n"
    assert outrider("log", "-n", "0").out == ""


def test_it_works_whatever_the_settings_say(outrider: Outrider, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("a line\n")
    monkeypatch.setenv("OUTRIDER_MODE", "sometimes")
    assert outrider("queue").code == 2
    assert outrider("log").out == "a line\n"
    file.unlink()
    file.mkdir()
    broken = outrider("log")
    assert broken.code == 1 and "cannot be read" in broken.err and broken.out == ""


def test_it_follows_until_it_is_interrupted(file: Path, home: Path) -> None:
    file.write_text("one\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "app.start", "log", "-f"], cwd=REPOSITORY, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, env={**os.environ, "OUTRIDER_HOME": str(home)},
        # In the background of a shell the signal is ignored, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "one\n"
        with file.open("a") as added:
            added.write("two\n")
        assert process.stdout.readline() == "two\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
        assert (process.returncode, out, err) == (130, "", "")
    finally:
        process.kill()
        process.communicate()
