"""`outrider history` lists the conversation with the newest message first, as its help says."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from storage import Store
from tests.support.commands import Outrider, runner


@pytest.fixture
def outrider(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, tiny_pair: Path
) -> Outrider:
    return runner(monkeypatch, capsys, tmp_path, tiny_pair / "drafter")


def test_a_pinned_conversation_keeps_its_place_in_time(outrider: Outrider, tmp_path: Path) -> None:
    store = Store.open(tmp_path / "data" / "outrider.db")
    ids = {title: store.conversations.create(title).id for title in ("first", "second", "third", "fourth")}
    store.conversations.pin(ids["second"], True)
    store.close()
    with closing(sqlite3.connect(tmp_path / "data" / "outrider.db")) as database:
        for day, title in enumerate(("second", "third", "fourth", "first"), 1):
            database.execute(
                "UPDATE conversations SET updated = ? WHERE title = ?", (f"2026-01-0{day}T12:00:00Z", title)
            )
        database.commit()
    listed = [line.split("  ") for line in outrider("history").out.splitlines()]
    assert [title for _, _, title in listed] == ["first", "fourth", "third", "second"]
    dates = [date for _, date, _ in listed]
    assert dates == sorted(dates, reverse=True)
