"""How many cores there are, how many of them drafting uses, and how the others are kept free."""

from __future__ import annotations

import os
import platform
from pathlib import Path

MOST_THREADS = 4


def keep_cores_free() -> None:
    """Limit numpy to one thread. Call this before numpy is imported; an existing setting takes precedence.

    Its other threads would spin after each product and take cores from the model. The products that numpy computes here
    are small.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


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
