"""Memory that a server has freed goes back to the system."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from remote.verifier.freed_memory import _function
from tests.support.serving import REPOSITORY

pytestmark = pytest.mark.skipif(_function("malloc_trim") is None, reason="this C library has no such functions")

# Blocks too large for Python's own pools, of which the newest stays: so the C library gives none of the others back.
FREES = """
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


def freed(gives_back: str, seconds: float) -> tuple[int, int]:
    """MiB of a process after it has freed memory, and those that it has in the end."""
    command = [sys.executable, "-c", FREES, gives_back, str(seconds)]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    said = subprocess.run(command, cwd=REPOSITORY, env=clean, capture_output=True, text=True, check=True).stdout
    before, after = said.split()
    return int(before), int(after)


def test_freed_memory_is_given_back_and_else_would_be_kept() -> None:
    before, after = freed("yes", 30.0)
    assert before > 100 and after < before - 80
    before, after = freed("no", 0.5)
    assert after > before - 20
