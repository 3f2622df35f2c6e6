"""Memory that a server has freed goes back to the system."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from remote.verifier.freed_memory import _function
from tests.support.serving import REPOSITORY

pytestmark = pytest.mark.skipif(_function("malloc_trim") is None, reason="this C library has no such functions")

READ = """
import sys, threading, time
from pathlib import Path
from remote.verifier.freed_memory import start_giving_back, use_again

def resident():
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) >> 10
"""
# Blocks too large for Python's own pools, of which the newest stays: so the C library gives none of the others back.
SMALL = f"""{READ}
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
# The blocks of each step are freed together, so by default the C library returns them, and their pages are new again.
AGAIN = f"""{READ}
import resource
if sys.argv[1] == "yes":
    use_again()

def new_pages():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        blocks = [bytes(b"x" * (1 << 20)) for _ in range(8)]
        del blocks
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print(new_pages())
print(new_pages())
"""
# Each thread holds a small block, and tells in which of the C library's places it lies.
PLACES = f"""{READ}
import ctypes
if sys.argv[1] == "yes":
    use_again()
c = ctypes.CDLL(None)
c.malloc.restype, c.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
places, barrier = set(), threading.Barrier(4)

def hold():
    barrier.wait()
    places.add(c.malloc(3000) >> 26)
    barrier.wait()

threads = [threading.Thread(target=hold) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(len(places), 0)
"""


def told(program: str, gives_back: str, seconds: float = 0.0, **environment: str) -> tuple[int, int]:
    """The two numbers that a program prints, in an environment that says nothing else about memory."""
    command = [sys.executable, "-c", program, gives_back, str(seconds)]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")} | environment
    said = subprocess.run(command, cwd=REPOSITORY, env=clean, capture_output=True, text=True, check=True).stdout
    before, after = said.split()
    return int(before), int(after)


def test_freed_memory_is_given_back_and_else_would_be_kept() -> None:
    before, after = told(SMALL, "yes", 30.0)
    assert before > 100 and after < before - 80
    before, after = told(SMALL, "no", 0.5)
    assert after > before - 20


def test_freed_memory_is_used_again_and_else_would_be_new() -> None:
    _, again = told(AGAIN, "yes")
    _, new = told(AGAIN, "no")
    assert again < 100 and new > 1000


def test_threads_take_memory_from_one_place_unless_the_environment_says_otherwise() -> None:
    alone, _ = told(PLACES, "yes")
    apart, _ = told(PLACES, "no")
    chosen, _ = told(PLACES, "yes", MALLOC_ARENA_MAX="8")
    assert alone < apart and alone < chosen
