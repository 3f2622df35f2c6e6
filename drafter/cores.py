"""How many cores there are, and how many of them drafting takes."""

from __future__ import annotations

import os
import platform
from pathlib import Path

MOST_THREADS = 4


def draft_threads() -> int:
    """Threads for a draft step on the CPU. One core stays free for everything else."""
    return min(MOST_THREADS, max(1, usable_cores() - 1))


def usable_cores() -> int:
    """Cores that this process may use. Each counts once, however many threads it has."""
    if hasattr(os, "sched_getaffinity"):
        allowed = os.sched_getaffinity(0)
        siblings = [Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") for cpu in allowed]
        if all(path.is_file() for path in siblings):
            return len({path.read_text() for path in siblings})
    logical = os.cpu_count() or 1
    return logical if platform.machine().lower() in ("arm64", "aarch64") else (logical + 1) // 2
