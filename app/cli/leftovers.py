"""What ONNX Runtime left on this device before Outrider switched its reports off; for `outrider doctor`.

The folder belongs to every program that uses ONNX Runtime, and nothing in it says for sure which of them wrote what. So
Outrider deletes none of it, and says where it is.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path

from app.cli.checks import Finding

FOLDER = Path("Microsoft", "DeveloperTools", ".onnxruntime")
QUEUE = "onnxruntime.db"
GRAPH = b"drafter.onnx"
"""The file name of every drafter's graph, which a report of a loaded model holds."""


def reports(environment: Mapping[str, str], home: Path) -> Iterator[Finding]:
    """A finding for each such folder; a warning where a report in it names a drafter."""
    caches = [home / ".cache", home / "Library/Caches", home / "Library/Application Support"]
    if moved := environment.get("XDG_CACHE_HOME"):
        caches.insert(0, Path(moved))
    for folder in dict.fromkeys(cache / FOLDER for cache in caches):
        if os.path.isdir(folder):  # False, too, where it may not be read.
            queued, ours = _queued(folder / QUEUE)
            left = "left by an older Outrider" if ours else "left by a program that uses it, perhaps an older Outrider"
            text = f"{folder} has a device id and {queued} unsent reports of ONNX Runtime, {left}; Outrider sends none"
            advice = f"to remove them: rm -r {shlex.quote(str(folder))}"
            yield Finding("warning" if ours else "ok", "reports", f"{text}; {advice}")


def _queued(path: Path) -> tuple[int, bool]:
    """How many reports wait there, and whether one of them names a drafter's graph. 0 where it cannot be read."""
    if not os.path.isfile(path):
        return 0, False
    try:
        with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            payloads = [bytes(row[0] or b"") for row in database.execute("SELECT payload FROM events")]
    except sqlite3.Error:
        return 0, False
    return len(payloads), any(GRAPH in payload for payload in payloads)
