"""How much memory there is for sessions: what the machine has free, and what a container lets this process have."""

from __future__ import annotations

import os
from pathlib import Path

import torch

CACHE_SHARE = 0.25
"""Of the free memory after loading, for all sessions' keys and values."""
UNKNOWN_BYTES = 8 << 30
"""Taken for free where the system does not tell."""
CGROUPS = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")


def cache_bytes(device: torch.device) -> int:
    """What all sessions may take together, where nobody says."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0] * CACHE_SHARE)
    return int(free_bytes() * CACHE_SHARE)


def free_bytes(root: Path = CGROUPS, membership: Path = MEMBERSHIP) -> int:
    """Free memory of the machine, or what is left of the limit of a control group, whichever is less."""
    free = UNKNOWN_BYTES
    if hasattr(os, "sysconf") and "SC_AVPHYS_PAGES" in os.sysconf_names:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    left = [bytes_left for folder in _folders(root, membership) if (bytes_left := _left(folder)) is not None]
    return max(0, min([free, *left]))


def _folders(root: Path, membership: Path) -> list[Path]:
    """The groups that hold this process, with all those above them, which limit it too."""
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
        top = root / "memory" if controllers else root  # Version 1 has a tree for each controller.
        # In a container the path may be the host's, which is not to be seen; then the container's own is the top.
        group = top / path.lstrip("/")
        found += [folder for folder in (group, *group.parents) if folder == top or top in folder.parents]
    return found


def _left(folder: Path) -> int | None:
    """What a group may still take; None where it has no limit."""
    for limit, usage, stale in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        try:
            most, used = int((folder / limit).read_text()), int((folder / usage).read_text())
        except (OSError, ValueError):  # "max" is no number.
            continue
        return most - used + _stat(folder / "memory.stat", stale)
    return None


def _stat(path: Path, name: str) -> int:
    """A figure of a group, such as the file pages that the system gives back when memory is short; else 0."""
    try:
        lines = path.read_text().splitlines()
        return next((int(value) for key, _, value in (line.partition(" ") for line in lines) if key == name), 0)
    except (OSError, ValueError):
        return 0
