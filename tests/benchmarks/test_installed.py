"""What an installed Outrider takes: the bundled model answers, and the figures are of all its processes."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks import installed as module
from benchmarks.installed import Installed, asked, chatted, medians, served
from benchmarks.processes import cpu_seconds, family, resident_mb

HERE = Installed(Path(sys.prefix), 1.0)
"""The environment of these tests, as if it had just been installed."""


def test_a_process_counts_with_those_that_it_started() -> None:
    busy = "while True: pass"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {busy!r}])"
    with subprocess.Popen([sys.executable, "-c", parent]) as process:
        try:
            deadline = time.monotonic() + 30
            while cpu_seconds(process.pid) < 0.5 and time.monotonic() < deadline:
                time.sleep(0.05)
            both = list(family(process.pid))
            assert len(both) == 2 and cpu_seconds(process.pid) >= 0.5
            assert resident_mb(process.pid) > resident_mb(both[1]) > 0
        finally:
            for one in reversed(both):
                subprocess.run(["kill", str(one)], check=True)


def test_the_median_is_taken_of_each_number() -> None:
    rows = [{"way": "base", "chat": {"mb": mb}, "seconds": 2 * mb} for mb in (3.0, 1.0, 2.0)]
    assert medians(rows) == {"way": "base", "chat": {"mb": 2.0}, "seconds": 4.0}


@pytest.mark.bundled
def test_the_bundled_model_answers_and_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDLE_SECONDS", 1.0)
    monkeypatch.setattr(module, "SETTLING_SECONDS", 0.5)
    assert asked(HERE, tmp_path) > 0
    chat = chatted(HERE, tmp_path)
    assert 0 < chat["ready_seconds"] + 0.05 < chat["answer_seconds"], "an answer takes its time"
    assert chat["resident_mb"] > 50 and 0 <= chat["idle_cores"] < 2
    alone = served(HERE, "onnx", tmp_path)
    assert alone["ready_seconds"] > 0 and 50 < alone["resident_mb"] < 2000
