"""The benchmark of the shell's keys: a row with real times, from a real helper and a real shell."""

from __future__ import annotations

import sys

import pytest

from benchmarks import shell


def test_a_row_has_times_and_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell, "QUESTIONS", ("unpack a tar.gz file",))
    row = shell.run("offline", ["bash"], 2)
    assert row["client"]["n"] == row["bash"]["n"] == 2 and row["ghost"]["n"] > 5
    assert all(0 < row[name]["p50_ms"] <= row[name]["p95_ms"] for name in ("client", "bash", "ghost"))
    assert row["cold_seconds"] > 0
    if sys.platform == "linux":
        assert 20 < row["memory_mb"]["helper"] <= row["memory_mb"]["all"]


def test_the_spread_of_times() -> None:
    assert shell.spread([n / 1000 for n in range(1, 101)]) == {"p50_ms": 50.5, "p95_ms": 95.0, "n": 100}
