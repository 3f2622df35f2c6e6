"""The memory and CPU time of a process and its descendants. psutil comes with the extra `server`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import psutil


def cpu_seconds(process: int) -> float:
    """CPU seconds that they have used so far."""
    return _sum(process, lambda one: sum(one.cpu_times()[:2]))


def resident_mb(process: int) -> float:
    """Megabytes of memory that they hold."""
    return _sum(process, lambda one: one.memory_info().rss / 1e6)


def _sum(process: int, of: Callable[[psutil.Process], float]) -> float:
    total, found = 0.0, list[psutil.Process]()
    with contextlib.suppress(psutil.Error):
        found = [(root := psutil.Process(process)), *root.children(recursive=True)]
    for one in found:
        with contextlib.suppress(psutil.Error):
            total += of(one)
    return total
