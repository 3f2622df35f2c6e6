"""Memory that a server has freed goes back to the system."""

from __future__ import annotations

import subprocess
import sys

import pytest

from remote.verifier.freed_memory import _trimmer
from tests.support.serving import REPOSITORY

# Blocks too large for Python's own pools, of which the newest stays: so the C library gives none of the others back.
PROGRAM = """
import sys, time
from pathlib import Path
from remote.verifier.freed_memory import start_giving_back

def resident():
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) >> 10

blocks = [bytes(2000) for _ in range(50_000)]
newest = blocks[-1]
del blocks
print(resident(), flush=True)
if sys.argv[1] == "yes":
    start_giving_back(0.05)
deadline = time.monotonic() + float(sys.argv[2])
while time.monotonic() < deadline and resident() > 60:
    time.sleep(0.02)
print(resident())
"""


def resident(gives_back: str, seconds: float) -> tuple[int, int]:
    """Resident megabytes after 100 of them were freed, and some time later."""
    command = [sys.executable, "-c", PROGRAM, gives_back, str(seconds)]
    before, after = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout.split()
    return int(before), int(after)


@pytest.mark.skipif(_trimmer() is None, reason="this C library has no such function")
def test_freed_memory_is_given_back() -> None:
    before, after = resident("yes", 30.0)
    assert before > 100 and after < before - 80


@pytest.mark.skipif(_trimmer() is None, reason="this C library has no such function")
def test_else_it_would_be_kept() -> None:
    before, after = resident("no", 0.5)
    assert after > before - 20
