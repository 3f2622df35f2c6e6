"""The memory and CPU time of a process and its descendants, from Linux's /proc."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


def family(process: int) -> Iterator[int]:
    """The ids of a process and of all its descendants."""
    waiting = [process]
    while waiting:
        one = waiting.pop()
        yield one
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{one}/task").iterdir():
                waiting += map(int, (task / "children").read_text().split())


def cpu_seconds(process: int) -> float:
    """CPU seconds that they have used so far."""
    ticks = 0
    for one in family(process):
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def resident_mb(process: int) -> float:
    """Megabytes of memory that they hold."""
    return sum(held_mb(one) for one in family(process))


def held_mb(process: int) -> float:
    """Megabytes of one; 0 if it has ended."""
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    return 0.0


def proportional_mb(process: int) -> float | None:
    """Megabytes of one, with its share of shared pages (PSS), or None if the system does not say."""
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        return next((int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith("Pss:")), None)
    return None
