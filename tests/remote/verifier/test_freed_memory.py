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


def test_freed_memory_is_given_back() -> None:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    command = [sys.executable, "-c", FREES]
    said = subprocess.run(command, cwd=REPOSITORY, env=clean, capture_output=True, text=True, check=True).stdout
    before, after = map(int, said.split())
    assert before > 100 and after < before - 80, "MiB"
