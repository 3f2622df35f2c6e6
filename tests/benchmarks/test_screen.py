"""The measurement of the screen runs on the screen as it is: a short chat, a page, a short answer."""

from __future__ import annotations

import pytest

from benchmarks import screen


async def test_a_short_chat_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen, "PAGES", 1)
    row = await screen.measure(4, screen.long_answer(3), 400.0, (100, 30))
    assert row["messages"] == 4 and row["open_ms"] > 0 and row["widgets"] > 0
    assert all(row[part]["seconds"] > 0 for part in ("open", "up", "down", "stream", "idle"))
