"""Background processes of the server's idle time."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from remote.verifier import idle
from remote.verifier.idle import StandingBack
from tests.support.patience import PATIENCE_SECONDS

HOLDS = """import os, subprocess, sys, time
print(subprocess.Popen(["sleep", "600"]).pid, flush=True)
time.sleep(600)
"""


def test_its_end_does_not_wait_for_who_else_holds_its_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "holds.py").write_text(HOLDS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(idle, "END_SECONDS", 0.1)
    heard = list[int]()
    process = StandingBack("holds", lambda stdin: None, lambda line: heard.append(int(line)))
    process.go_on()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not heard and time.monotonic() < deadline:
        time.sleep(0.01)
    try:
        process.kill()
        assert not process.ended, "the other program still holds its output"
    finally:
        os.kill(heard[0], signal.SIGKILL)
