"""The memory for sessions: free memory of the machine, within the limits of a container."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

CACHE_SHARE = 0.25
"""Share of the memory left after loading that all sessions' keys and values may use."""
UNKNOWN_BYTES = 8 << 30
"""Assumed free memory if the system does not report it."""
CGROUPS = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")
MACHINE = Path("/proc/meminfo")


def free_bytes(root: Path = CGROUPS, membership: Path = MEMBERSHIP, machine: Path = MACHINE) -> int:
    """Free memory of the machine, or what is left of a control group's limit if that is less."""
    free = _stat(machine, "MemAvailable:") << 10  # With the file pages that the system would give back.
    if not free and hasattr(os, "sysconf") and "SC_AVPHYS_PAGES" in os.sysconf_names:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    free = free or UNKNOWN_BYTES
    left = [bytes_left for folder in _folders(root, membership) if (bytes_left := _left(folder)) is not None]
    return max(0, min([free, *left]))


def total_bytes(root: Path = CGROUPS, membership: Path = MEMBERSHIP) -> int | None:
    """Memory of the machine, or a control group's limit if that is less, or None if the system does not report it."""
    known = [limit for folder in _folders(root, membership) if (limit := _limit(folder)) is not None]
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        known.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(known, default=None)


def _folders(root: Path, membership: Path) -> list[Path]:
    """The control groups that hold this process, and all groups above them, which limit it too."""
    try:
        lines = membership.read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return []
    found = []
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and "memory" not in controllers.split(","):
            continue
        top = root / "memory" if controllers else root  # Version 1 has one tree for each controller.
        # In a container, the path may be the host's, which is not visible. Then the root is the container's own group.
        group = top / path.lstrip("/")
        found += [folder for folder in (group, *group.parents) if folder == top or top in folder.parents]
    return found


def _left(folder: Path) -> int | None:
    """Bytes that a group may still allocate, or None if it has no limit."""
    for limit, usage, stale in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        try:
            most, used = int((folder / limit).read_text()), int((folder / usage).read_text())
        except (OSError, ValueError):  # "max" is not a number.
            continue
        return most - used + _stat(folder / "memory.stat", stale)
    return None


def _limit(folder: Path) -> int | None:
    """Most bytes that a group may have, or None if there is no limit."""
    for name in ("memory.max", "memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):  # "max" is not a number.
            return int((folder / name).read_text())
    return None


def _stat(path: Path, name: str) -> int:
    """A statistic of a group or of the machine, such as file pages that the system reclaims when memory is short; 0 if
    there is none.
    """
    try:
        lines = (line.split() for line in path.read_text().splitlines())
        return next((int(value) for key, value, *_ in lines if key == name), 0)
    except (OSError, ValueError):
        return 0
