from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from storage import Store
from tests.app.tui.scripted import open_store


@pytest.fixture(autouse=True)
def quick_pilot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have Textual see every 8 ms, not every 20, whether the application is idle: it looks twice after each key."""
    monkeypatch.setattr("textual._wait.SLEEP_GRANULARITY", 0.008)
    monkeypatch.setattr("textual._wait.SLEEP_IDLE", 0.0005)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = open_store(tmp_path)
    yield store
    store.close()
