"""Starts another process of this program: the server on this device, or what learns in the background."""

from __future__ import annotations

import os
import sys
from pathlib import Path

PACKAGES = Path(__file__).resolve().parents[1]
"""The folder that holds the packages."""


def own_command(*arguments: str, module: str = "app.cli") -> list[str]:
    """`outrider`, or another module of it, with these arguments, run by the Python that runs now."""
    # -P: imports come from this package's place, never from the current folder.
    return [sys.executable, "-P", "-m", module, *arguments]


def own_environment() -> dict[str, str]:
    """The environment of this process, in which Python finds this package too."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [str(PACKAGES), os.getenv("PYTHONPATH")]))}
