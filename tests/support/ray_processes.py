"""The processes that Ray runs for a server, so that one of them can be killed. They are read from /proc."""

from __future__ import annotations

from pathlib import Path


def replicas_of(server: int) -> set[int]:
    """The process ids of the replicas of `outrider serve --replicas`, whose own id is `server`."""
    return {process for process in descendants(server) if "ServeReplica" in command(process)}


def descendants(process: int) -> set[int]:
    """The process ids of all that a process has started, and of what these have started."""
    parents = {int(path.name): _parent(path) for path in Path("/proc").iterdir() if path.name.isdigit()}
    found = {process}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {process}


def command(process: int) -> str:
    """Its command line, or the name that it gave itself; empty if it has ended."""
    try:
        return Path(f"/proc/{process}/cmdline").read_text()
    except OSError:
        return ""


def _parent(process: Path) -> int:
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0
