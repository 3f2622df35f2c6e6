"""Starts another process of this program: the server on this device, or learning in the background."""

from __future__ import annotations

import os
import sys
from pathlib import Path

PACKAGES = Path(__file__).resolve().parents[1]
"""The folder that holds the packages."""


def own_command(*arguments: str, module: str = "app.cli") -> list[str]:
    """The command line for `outrider`, or another of its modules, with these arguments, run by the current Python."""
    # -P: import from this package's location, never from the current folder.
    return [sys.executable, "-P", "-m", module, *arguments]


def memory_used(process_id: int) -> int | None:
    """Bytes of memory that a process uses, or None if the system does not say."""
    try:
        return int(Path(f"/proc/{process_id}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def own_environment() -> dict[str, str]:
    """The environment of this process, extended so that Python finds this package."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [str(PACKAGES), os.getenv("PYTHONPATH")]))}
