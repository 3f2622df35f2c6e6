"""A person's home and runtime folder, with a helper of their own that ends with the test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.shells import environment_of, stop_helper


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The variables of a person who has no server; yields the home."""
    home, runtime = tmp_path / "home", tmp_path / "run"
    home.mkdir()
    runtime.mkdir()
    for name in [name for name in os.environ if name.startswith("OUTRIDER_")]:
        monkeypatch.delenv(name)
    for name, value in environment_of(home, runtime, OUTRIDER_MODE="offline").items():
        monkeypatch.setenv(name, value)
    yield home
    stop_helper(os.environ)
