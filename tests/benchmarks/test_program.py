"""What is measured of the program as people run it: the screen, search, the shell's keys, its start, what it takes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks import installed, screen, search, shell
from benchmarks.installed import Installed
from benchmarks.processes import cpu_seconds, family, resident_mb
from benchmarks.startup import measure, programs
from tests.support.patience import PATIENCE_SECONDS


async def test_a_short_chat_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen, "PAGES", 1)
    row = await screen.measure(4, screen.long_answer(3), 400.0, (100, 30))
    assert row["messages"] == 4 and row["open_ms"] > 0 and row["widgets"] > 0
    assert all(row[part]["seconds"] > 0 for part in ("open", "up", "down", "stream", "idle"))


def test_each_query_is_a_row_of_both_searches(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    search.main(["--messages", "200", "--repeats", "2", "--json", str(out)])
    document = json.loads(out.read_text())
    kinds = {row["kind"] for row in document["rows"]}
    assert kinds >= {*search.QUERIES, "a pasted answer"} and document["messages"] == 200
    for row in document["rows"]:
        assert 0 < row["median_ms"] <= row["worst_ms"]
        assert (row["found"] > 0) >= (row["kind"] in ("one letter", "three letters", "common word", "a pasted answer"))


def test_keys_in_the_shell_have_times_and_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell, "QUESTIONS", ("unpack a tar.gz file",))
    row = shell.run("offline", ["bash"], 2)
    assert row["client"]["n"] == row["bash"]["n"] == 2 and row["ghost"]["n"] > 5
    assert all(0 < row[name]["p50_ms"] <= row[name]["p95_ms"] for name in ("client", "bash", "ghost"))
    if sys.platform == "linux":
        assert 20 < row["memory_mb"]["helper"] <= row["memory_mb"]["all"]


# ---- the start -------------------------------------------------------------------------------------------------------


def test_our_screen_paints_and_then_takes_a_key(tmp_path: Path) -> None:
    (ours,) = [one for one in programs({}, [sys.executable, "-m", "app.start"]) if one.name == "outrider, offline"]
    seconds = measure(ours, tmp_path)
    assert 0 < seconds["frame"] < seconds["key"]


# ---- what it takes ---------------------------------------------------------------------------------------------------


def test_a_process_counts_with_those_that_it_started() -> None:
    busy = "while True: pass"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {busy!r}])"
    with subprocess.Popen([sys.executable, "-c", parent]) as process:
        both = [process.pid]
        try:
            deadline = time.monotonic() + PATIENCE_SECONDS
            while cpu_seconds(process.pid) < 0.5 and time.monotonic() < deadline:
                time.sleep(0.05)
            both = list(family(process.pid))
            assert len(both) == 2 and cpu_seconds(process.pid) >= 0.5
            assert resident_mb(process.pid) > resident_mb(both[1]) > 0
        finally:
            for one in reversed(both):
                subprocess.run(["kill", str(one)], check=True)


@pytest.mark.bundled
def test_the_bundled_model_answers_and_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "IDLE_SECONDS", 1.0)
    monkeypatch.setattr(installed, "SETTLING_SECONDS", 0.5)
    here = Installed(Path(sys.prefix), 1.0)  # The environment of these tests, as if it had just been installed.
    assert installed.asked(here, tmp_path) > 0
    chat = installed.chatted(here, tmp_path)
    assert 0 < chat["ready_seconds"] < chat["answer_seconds"]
    assert chat["resident_mb"] > 50 and chat["idle_cores"] >= 0
    alone = installed.served(here, "onnx", tmp_path)
    assert alone["ready_seconds"] > 0 and alone["resident_mb"] > 50
