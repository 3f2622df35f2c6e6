"""The benchmark of the gateway: real clients on a line that fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.gateway import main
from benchmarks.gateway_clients import STAND_INS

pytest.importorskip("openai")


def test_no_text_is_lost_doubled_or_falsely_marked(tiny_pair: Path, tmp_path: Path) -> None:
    out = tmp_path / "gateway.json"
    options = ["--runs", "2", "--seed", "1", "--target", str(tiny_pair / "target"), "--moa", str(tiny_pair / "drafter")]
    assert main([*options, "--json", str(out)]) == 0
    *rows, total = json.loads(out.read_text())["rows"]
    assert [len(row["states"]) for row in rows] == [len(STAND_INS)] * 2 and total["violations"] == 0
    assert total["checked"] + total["replaced"] == total["answers"] == 2 * len(STAND_INS)
    assert any(row["outage"] for row in rows)
