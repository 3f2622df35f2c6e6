"""What the server does when it is idle: background processes, and freed memory goes back to the system."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from remote.verifier import idle
from remote.verifier.freed_memory import _function
from remote.verifier.idle import StandingBack
from tests.support.patience import PATIENCE_SECONDS
from tests.support.serving import REPOSITORY

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


# Blocks too large for Python's own pools, of which the newest stays: so the C library gives none of the others back.
FREES = """
import time
from pathlib import Path
from remote.verifier.freed_memory import start_giving_back

def resident():
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) >> 10

blocks = [bytes(2000) for _ in range(50_000)]
newest = blocks[-1]
del blocks
print(resident(), flush=True)
start_giving_back(0.05)
deadline = time.monotonic() + 30
while time.monotonic() < deadline and resident() > 60:
    time.sleep(0.02)
print(resident())
"""


@pytest.mark.skipif(_function("malloc_trim") is None, reason="this C library has no such functions")
def test_freed_memory_is_given_back() -> None:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    command = [sys.executable, "-c", FREES]
    said = subprocess.run(command, cwd=REPOSITORY, env=clean, capture_output=True, text=True, check=True).stdout
    before, after = map(int, said.split())
    assert before > 100 and after < before - 80, "MiB"
