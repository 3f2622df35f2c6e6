"""The comparison on equal terms: it stops where nothing gets better, goes on after a kill, and counts what it says."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from benchmarks import comparison
from benchmarks.baseline_drafters import load_baseline
from benchmarks.comparison import Estimate, Task, main, queue, run_all
from benchmarks.comparison_table import comparison_table
from benchmarks.drafting import drafted, interval
from benchmarks.entrants import ENTRANTS, SKIP
from benchmarks.patience import Patience, divergences, train_until_flat
from drafter.model import MemoryEncoder
from drafter.runtime import Drafter
from drafter.search import Pace
from drafter.training.recipe import Recipe
from models.engines.target import load_target
from models.engines.torch_engine import TorchEngine
from tests.benchmarks.test_plots import DOCUMENTS

# ---- until it is flat ------------------------------------------------------------------------------------------------


class Training:
    """Stands for a training whose held-out divergence is known beforehand, with a log and a checkpoint like any."""

    def __init__(self, out, curve) -> None:
        self.log, self.curve, self.at, self.asked = out / "log.jsonl", curve, 0, []

    def __call__(self, recipe: Recipe) -> int:
        self.asked.append((recipe.steps, recipe.rate_at(recipe.steps - 1)))
        if recipe.steps > self.at:
            self.at = recipe.steps
            line = {"step": self.at - 1, "unseen": {"divergence": self.curve(self.at)}}
            with self.log.open("a") as log:
                log.write(json.dumps(line) + "\n")
        return self.at


RECIPE, PATIENCE = Recipe(rate=1.0, warmup=1), Patience(bound=100, every=10, looks=2, gain=0.01, fall=20)


def test_it_stops_where_looks_bring_no_gain_and_then_the_rate_falls(tmp_path):
    learn = Training(tmp_path, lambda steps: max(1 / steps, 1 / 30))
    model, flat = train_until_flat(learn, RECIPE, PATIENCE, tmp_path)
    assert (model, flat) == (70, 50), "at 30 it was best, and two looks later it was flat"
    assert [rate for steps, rate in learn.asked if steps <= flat] == [1.0] * 5
    assert learn.asked[-1] == (70, pytest.approx(1 / 20))
    falling = replace(RECIPE, steps=70, decay=20 / 70)
    assert falling.rate_at(50) == pytest.approx(1.0) and falling.rate_at(60) == pytest.approx(0.5)


def test_what_still_learns_ends_at_the_bound(tmp_path):
    learn = Training(tmp_path, lambda steps: 1 / steps)
    assert train_until_flat(learn, RECIPE, PATIENCE, tmp_path) == (120, 100)


@pytest.mark.parametrize("killed_at", [20, 50, 60])
def test_a_killed_training_decides_the_same(tmp_path, killed_at):
    learn = Training(tmp_path, lambda steps: max(1 / steps, 1 / 30))

    def killed(recipe: Recipe) -> int:
        if recipe.steps > killed_at:
            raise KeyboardInterrupt
        return learn(recipe)

    with pytest.raises(KeyboardInterrupt):
        train_until_flat(killed, RECIPE, PATIENCE, tmp_path)
    assert train_until_flat(learn, RECIPE, PATIENCE, tmp_path) == (70, 50)
    assert divergences(learn.log, 50) == [max(1 / steps, 1 / 30) for steps in (10, 20, 30, 40, 50)]


# ---- what rounds bring -----------------------------------------------------------------------------------------------


def test_rounds_are_counted_as_they_happen(tiny_pair):
    """Tokens, rounds and calls are those of the answers; a draft that reads the prompt costs nothing."""
    target = load_target(str(tiny_pair / "target")).model
    drafter = Drafter.load(tiny_pair / "drafter", "torch", bits=None, device="cpu")
    engine = TorchEngine(target, MemoryEncoder.load(tiny_pair / "drafter"))
    prompts = [np.random.default_rng(seed).integers(5, 60, 9).tolist() for seed in range(3)]
    pace = Pace(depth=3, breadth=2, nodes=6)
    one = drafted(engine, drafter, prompts, pace, 12)
    again = comparison.drafted(engine, drafter, prompts, pace, 12, count_operations=True)
    assert one.tokens == again.tokens == [11, 11, 11] and one.rounds == again.rounds
    assert one.drafts == sum(one.rounds) - 3 and one.calls <= 3 * one.drafts
    assert 0 < one.draft_seconds < one.seconds
    assert one.operations == 0 and again.operations > 0
    rows = again.operations / again.drafts / (2 * sum(part.numel() for part in target.model.layers[0].parameters()))
    assert 3 < rows < 100, "about as many as the rows of its layers make"


def test_the_interval_draws_prompts_with_all_their_seeds():
    tokens, counts = [[10] * 8, [30] * 8], [[10] * 8, [10] * 8]
    assert interval(tokens, counts) == (2.0, 2.0), "prompts are alike, and seeds are not drawn"
    low, high = interval([[5, 50] * 4], [[10, 10] * 4])
    assert low < 2.75 < high


# ---- the table -------------------------------------------------------------------------------------------------------


def test_the_table_says_what_was_measured():
    text = comparison_table({"comparison": DOCUMENTS["comparison"]})
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert lines[2:5] == [
        "| MoA | 3.2M | 10.9M | 272 | 6.50 (6.38 to 6.62) | 6.25, 6.75 | 4.50 | 0.0025, copied | 400, 650* |",
        "| EAGLE-3.1 | 3.2M | 10.9M | 272 | 5.25 (5.12 to 5.38) | 5.12, 5.38 | 4.50 | 0.0025, random | 400, 650* |",
        "| the target's layers, untrained | 3.2M | 10.9M | – | 2.50 (2.38 to 2.62) | – | 4.50 | – | – |",
    ]
    assert lines[7:] == [
        "| MoA | 8.0 | 5.2 ms | 42.0 ms | 75% | 0.50 | 13.0 |",
        "| EAGLE-3.1 | 8.0 | 5.2 ms | 42.0 ms | 75% | 0.75 | 7.0 |",
        "| MoA as it ships, on ONNX Runtime | 8.0 | 1.2 ms | 10.0 ms | 50% | – | – |",
    ]
    assert "Answers of 2,000 conversations" in text and "at most 500 steps" in text
    assert comparison_table({}) == ""


# ---- the queue -------------------------------------------------------------------------------------------------------


@pytest.fixture
def options(tiny_pair, tmp_path) -> list[str]:
    work = tmp_path / "work"
    work.mkdir()
    rng = np.random.default_rng(0)
    lines = [{"ids": rng.integers(5, 60, 24).tolist(), "learn": [[8, 24]]} for _ in range(100)]
    (work / "answers.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "prompts.jsonl").write_text("".join(json.dumps({"prompt": f"say {at}"}) + "\n" for at in range(4)))
    given = {
        "pages": tmp_path / "none",
        "work": work,
        "target": tiny_pair / "target",
        "moa": tiny_pair / "drafter",
        "conversations": 100,
        "first-layers": 1,
        "block": 3,
        "trial": 2,
        "bound": 2,
        "every": 1,
        "fall": 1,
        "rows": 2,
        "row": 48,
        "prompts": tmp_path / "prompts.jsonl",
        "limit": 3,
        "max-tokens": 24,
        "timed": 2,
    }
    return [f"--{name}={value}" for name, value in given.items()] + ["--rates", "0.001", "0.004", "--seeds", "1", "2"]


@pytest.mark.training
def test_the_queue_trains_measures_and_does_nothing_twice(options, tmp_path, capsys):
    out = tmp_path / "out.json"
    main([*options, f"--json={out}"])
    said = capsys.readouterr()
    assert "[12/12] rates/eagle2-f-copied-0.004" in said.err and "[11/11] seeds/eagle2-f-2" in said.err
    assert "| EAGLE-2 after the first layers |" in said.out
    document = json.loads(out.read_text())
    rows = {row["drafter"]: row for row in document["rows"]}
    assert list(rows) == [entrant.name for entrant in ENTRANTS]
    for name, row in rows.items():
        assert row["ci95"][0] <= row["tau"] <= row["ci95"][1] and row["calls"] >= 1 and row["gflop"] > 0
        assert 0 < row["drafting"] < 1 and row["chain_tau"] >= 1
        if name == SKIP:
            assert row["seeds"] == {} and row["trained_parameters"] == row["bytes_per_token"] == 0
            continue
        assert set(row["seeds"]) == {"1", "2"} and row["steps"] == [3, 3] and row["flat"] == [False, False]
        starts = {"copied", "random"} if name == "eagle3" else {"copied"}
        tried = {(trial["start"], trial["rate"]): trial["divergence"] for trial in row["trials"]}
        assert set(tried) == {(start, rate) for start in starts for rate in (0.001, 0.004)}
        assert tried[row["start"], row["rate"]] == min(tried.values())
    assert document["shipped"]["calls"] > 1 and document["shipped"]["gflop"] is None
    assert rows["block"]["calls"] == 1.0 < rows["moa"]["calls"]
    sizes = [row["step_parameters"] for row in rows.values()]
    assert max(sizes) < 1.2 * min(sizes), "tiny MLPs grow in coarse steps"

    work = tmp_path / "work"
    before = {path: path.stat().st_mtime_ns for path in work.rglob("*") if path.name not in ("plan.json",)}
    main([*options, f"--json={out}", f"--export={tmp_path / 'export'}"])
    assert before == {path: path.stat().st_mtime_ns for path in work.rglob("*") if path.name != "plan.json"}
    assert json.loads(out.read_text())["rows"] == document["rows"]
    target = load_target(document["plan"]["target"]).model
    baselines = {name: load_baseline(tmp_path / "export" / name, target) for name in ("eagle2-f", "eagle2", "eagle3")}
    assert [baseline.config.steps for baseline in baselines.values()] == [3, 3, 3]
    exported = Drafter.load(tmp_path / "export" / "moa")
    assert exported.config.steps == 3 and exported.config.memory_bits == 4 and not exported.correctable

    with pytest.raises(SystemExit) as stopped:
        main([*options, "--trial=3"])
    assert stopped.value.code == 1 and "other options" in capsys.readouterr().err


@pytest.mark.training
def test_a_killed_queue_ends_with_the_same_weights(options, tmp_path, monkeypatch):
    only = ["--drafters", "block", "--seeds", "1"]
    main([*options, *only])

    def weights():
        state = torch.load(tmp_path / "work/seeds/block-1/checkpoint.pt", weights_only=True)
        return state["model"], json.loads((tmp_path / "work/seeds/block-1/result.json").read_text())["tau"]

    whole, tau = weights()
    (tmp_path / "work").rename(tmp_path / "whole")
    (tmp_path / "work").mkdir()
    (tmp_path / "whole/answers.jsonl").rename(tmp_path / "work/answers.jsonl")
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        learn = comparison.Entrant._train

        def killed(self, setting, out, start, recipe):
            if recipe.steps == 2:
                raise KeyboardInterrupt
            return learn(self, setting, out, start, recipe)

        patched.setattr(comparison.Entrant, "_train", killed)
        main([*options, *only])
    assert not (tmp_path / "work/seeds/block-1/result.json").exists()
    main([*options, *only])
    again, tau_again = weights()
    assert tau == tau_again and whole.keys() == again.keys()
    for name, weight in whole.items():
        assert torch.equal(weight, again[name]), name


def test_the_queue_has_the_first_seed_of_all_before_the_second_of_any(tmp_path):
    plan = comparison.Plan(
        *("target", "drafter", 100, 1, 8, (1e-3, 2e-3), 5, (7, 8), PATIENCE, 8, 64, "prompts", 3, 9, 2),
        drafters=("moa", "eagle2", SKIP),
    )
    trials, trainings = queue(plan, tmp_path)
    assert [task.name for task in trials] == [
        f"rates/{name}-copied-{rate}" for name in ("eagle2", "moa") for rate in ("0.001", "0.002")
    ]
    assert [(task.name, task.steps) for task in trainings] == [
        ("seeds/eagle2-7", 120),
        ("seeds/moa-7", 120),
        ("seeds/layer-skip-7", 0),
        ("seeds/eagle2-8", 120),
        ("seeds/moa-8", 120),
    ]


def test_the_time_left_follows_from_what_finished_pieces_took(tmp_path, capsys):
    moa, guess = Task("a", "moa", 10, lambda: {"seconds": 30.0}), Task("b", "moa", 100, dict)
    estimate = Estimate()
    assert estimate.left([guess], 1) == 100 * ENTRANTS[0].seconds
    run_all([moa], [guess], tmp_path, 1, estimate)
    assert estimate.left([guess], 2) == 150.0
    assert "[1/1] a: ; at most 0.1 h of training left" in capsys.readouterr().err
    fresh = Estimate()
    run_all([moa], [guess], tmp_path, 1, fresh)
    assert fresh.left([guess], 2) == 150.0, "what an earlier run did counts"
