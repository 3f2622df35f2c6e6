"""The comparison on equal terms trains and measures each entrant, and does nothing twice."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks.comparison import ENTRANTS, UNTRAINED, main

pytestmark = pytest.mark.training


def test_all_are_trained_and_measured_once(tiny_pair, tmp_path, capsys):
    work, out = tmp_path / "work", tmp_path / "out.json"
    work.mkdir()
    rng = np.random.default_rng(0)
    lines = [{"ids": rng.integers(5, 60, 24).tolist(), "learn": [[8, 24]]} for _ in range(100)]
    (work / "answers.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "prompts.jsonl").write_text("".join(json.dumps({"prompt": f"say {at}"}) + "\n" for at in range(3)))
    given = {"pages": tmp_path, "work": work, "target": tiny_pair / "target", "moa": tiny_pair / "drafter", "json": out}
    given |= {"prompts": tmp_path / "prompts.jsonl", "conversations": 100, "first-layers": 1, "trial": 2, "bound": 2}
    given |= {"every": 1, "fall": 1, "rows": 2, "row": 48, "max-tokens": 24}
    options = [f"--{name}={value}" for name, value in given.items()] + ["--rates", "0.001", "0.004", "--seeds", "1"]
    main(options)
    rows = {row["drafter"]: row for row in json.loads(out.read_text())["rows"]}
    assert tuple(rows) == ENTRANTS
    for name, row in rows.items():
        assert row["tau"] >= 1 and row["ci95"][0] <= row["tau"] <= row["ci95"][1]
        assert (row["steps"], row["flat"]) == (([None], [None]) if name == UNTRAINED else ([3], [False]))
    written = {path: path.stat().st_mtime_ns for path in work.rglob("result.json")}
    assert len(written) == 3 * 2 + 4
    main(options)
    assert {path: path.stat().st_mtime_ns for path in work.rglob("result.json")} == written
    with pytest.raises(SystemExit, match="other options"):
        main([*options, "--limit=2"])
