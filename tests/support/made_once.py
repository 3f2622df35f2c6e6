"""Fixtures that take seconds to make and never change: made once a run, by the worker that needs them first."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock


def made_once(temporary: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """The folder `name` of this run. `make` fills it once; it appears complete or not at all."""
    shared = temporary.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent  # A worker's own folder lies in the run's.
    folder = shared / name
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            unfinished = folder.with_name(f"{name}.{os.getpid()}")
            unfinished.mkdir()
            make(unfinished)
            unfinished.rename(folder)
    return folder
