from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def quick_pilot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have Textual see every 8 ms, not every 20, whether the application is idle: it looks twice after each key."""
    monkeypatch.setattr("textual._wait.SLEEP_GRANULARITY", 0.008)
    monkeypatch.setattr("textual._wait.SLEEP_IDLE", 0.0005)
