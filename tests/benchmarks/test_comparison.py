"""The comparison on equal terms stops where nothing gets better, continues after a kill, and does nothing twice."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.comparison import ENTRANTS, UNTRAINED, Patience, divergences, interval, main, train_until_flat
from drafter.training.recipe import Recipe

RECIPE, PATIENCE = Recipe(rate=1.0, warmup=1), Patience(bound=100, every=10, looks=2, gain=0.01, fall=20)


class Training:
    """A training whose held-out divergence is known beforehand, with a log and a checkpoint like any."""

    def __init__(self, out: Path, curve) -> None:
        self.log, self.curve, self.at, self.asked = out / "log.jsonl", curve, 0, []

    def __call__(self, recipe: Recipe) -> int:
        self.asked.append((recipe.steps, recipe.rate_at(recipe.steps - 1)))
        if recipe.steps > self.at:
            self.at = recipe.steps
            line = {"step": self.at - 1, "unseen": {"divergence": self.curve(self.at)}}
            with self.log.open("a") as log:
                log.write(json.dumps(line) + "\n")
        return self.at


def test_it_stops_where_looks_bring_no_gain_and_then_the_rate_falls(tmp_path):
    learn = Training(tmp_path, lambda steps: max(1 / steps, 1 / 30))
    assert train_until_flat(learn, RECIPE, PATIENCE, tmp_path) == (70, 50), "best at 30, and flat two looks later"
    assert [rate for steps, rate in learn.asked if steps <= 50] == [1.0] * 5
    assert learn.asked[-1] == (70, pytest.approx(1 / 20))
    assert divergences(learn.log, 50) == [max(1 / steps, 1 / 30) for steps in (10, 20, 30, 40, 50)]


def test_the_interval_draws_prompts_with_all_their_seeds():
    tokens, counts = np.array([[10] * 8, [30] * 8]), np.full((2, 8), 10)
    assert interval(tokens, counts) == (2.0, 2.0), "prompts are alike, and seeds are not drawn"
    low, high = interval(np.array([[5, 50] * 4]), np.full((1, 8), 10))
    assert low < 2.75 < high


@pytest.mark.training
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
        assert row["tau"] >= 1 and row["chain_tau"] >= 1 and row["ci95"][0] <= row["tau"] <= row["ci95"][1]
        assert row["step_parameters"] > 0 and (row["trained_parameters"] == 0) == (name == UNTRAINED)
        assert (row["steps"], row["flat"]) == (([None], [None]) if name == UNTRAINED else ([3], [False]))
    written = {path: path.stat().st_mtime_ns for path in work.rglob("result.json")}
    assert len(written) == 3 * 2 + 4
    main(options)
    assert {path: path.stat().st_mtime_ns for path in work.rglob("result.json")} == written
    with pytest.raises(SystemExit, match="other options"):
        main([*options, "--limit=2"])
