"""The grid: one thing changes at a time, no run is repeated or mixed with another, and its figures are the log's."""

from __future__ import annotations

import json
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from transformers import AutoModelForCausalLM

from benchmarks import ablations
from benchmarks.ablations import BASELINE, VARIANTS, Common, main, plan, run, states
from drafter.training.distil import train
from drafter.training.recipe import Recipe
from models.config import DrafterConfig


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    rng = np.random.default_rng(0)
    lines = [{"ids": rng.integers(5, 60, 24).tolist(), "learn": [[8, 24]]} for _ in range(100)]
    path = tmp_path_factory.mktemp("answers") / "answers.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.fixture(scope="module")
def target(tiny_pair):
    return AutoModelForCausalLM.from_pretrained(tiny_pair / "target").eval()


@pytest.fixture
def common(tiny_pair, answers, tmp_path) -> Common:
    return Common(str(tiny_pair / "target"), answers, tmp_path / "work", None, (2, 1), "cpu")


@pytest.fixture
def options(common) -> list[str]:
    shared = [f"--answers={common.answers}", f"--target={common.target}", f"--work={common.work}", "--device=cpu"]
    return [*shared, "--rows=1", "--row=64"]


def rows(out) -> list[dict]:
    return json.loads(out.read_text())["rows"]


def test_each_variant_changes_what_its_name_says_and_nothing_else(target, common):
    jobs, refused = plan(target, Recipe(), common)
    assert set(jobs) | set(refused) == {variant.name for variant in VARIANTS} and not set(jobs) & set(refused)
    own = {"no-lsa", "n-1", "first-0", "local-0.0", "tail-0.12", "blank-0.1", "feature-1.0", "loss-kl"}
    assert {name for name, why in refused.items() if why == "the baseline has it so"} == own
    assert set(refused) == own | {"first-2"}, "of 3 layers one is the last already"
    base = jobs[BASELINE]
    assert base.config.inference_layers == 1 and base.recipe == replace(Recipe(), local=0.0)
    changed = {}
    for name, job in jobs.items():
        shape = {
            key: value
            for key, value in msgspec.structs.asdict(job.config).items()
            if value != getattr(base.config, key)
        }
        changed[name] = shape | {k: v for k, v in vars(job.recipe).items() if v != getattr(base.recipe, k)}
    assert changed == {
        BASELINE: {},
        "another-seed": {"seed": Recipe.seed + 1},
        "lsa": {"layer_self_attention": True},
        "no-ca": {"cross_attention": False},
        "random-start": {"from_target": False, "local": 0.5},
        "random-start-exit": {"from_target": False, "exit_norm": True, "local": 0.5},
        "exit": {"exit_norm": True},
        "local-0.5": {"local": 0.5},
        "n-0": {"inference_layers": 0},
        "n-2": {"inference_layers": 2},
        "first-1": {"first_layers": 1},
        "blocks-2": {"blocks": 2},
        "tail-0.0": {"tail": 0.0},
        "tail-0.3": {"tail": 0.3},
        "blank-0.0": {"blank": 0.0},
        "blank-0.2": {"blank": 0.2},
        "feature-0.0": {"feature_weight": 0.0},
        "feature-0.1": {"feature_weight": 0.1},
        "feature-10.0": {"feature_weight": 10.0},
        "loss-lk": {"loss": "lk"},
        "loss-tv": {"loss": "tv"},
    }
    assert len({job.folder for job in jobs.values()}) == len(jobs)
    assert all(isinstance(job.config, DrafterConfig) for job in jobs.values())


def test_another_baseline_turns_its_old_value_into_a_variant(target, common):
    jobs, refused = plan(target, replace(Recipe(), tail=0.3), common)
    assert "tail-0.12" in jobs and "tail-0.3" in refused


def test_what_a_target_cannot_do_is_left_out(target, common, monkeypatch):
    monkeypatch.setattr(target.config, "num_hidden_layers", 2)
    _, refused = plan(target, Recipe(), common)
    assert "2 last ones are too many" in refused["n-2"]


def test_all_that_the_grid_learns_from_is_recorded(target, common, monkeypatch):
    monkeypatch.setattr(target.config, "num_hidden_layers", 8)
    jobs, _ = plan(target, Recipe(), common)
    assert {"n-2", "first-2"} <= set(jobs) and states(jobs.values()) == [1, 2, 6, 7]


def test_the_grid_is_trained_once_and_tells_what_the_log_tells(options, common, tmp_path, capsys):
    out = tmp_path / "out.json"
    recording = ["--recording", str(tmp_path / "recording")]
    main([*options, *recording, "--steps=2", "--only", "n-0", "baseline", "loss-kl", f"--json={out}"])
    said = capsys.readouterr()
    assert "not trained: loss-kl: the baseline has it so" in said.err and "| N = 0 |" in said.err
    assert [json.loads(line)["variant"] for line in said.out.splitlines()] == ["n-0", "baseline"]
    assert [row["variant"] for row in rows(out)] == ["baseline", "n-0"]
    for row in rows(out):
        log = [json.loads(line) for line in (common.work / row["variant"] / "log.jsonl").read_text().splitlines()]
        unseen = log[-1]["unseen"]
        assert log[-1]["step"] == 1 and row["steps"] == 2 and len(row["agreement"]) == 8
        assert {name: row[name] for name in ("chain_tau", "agreement", "divergence", "alone")} == {
            name: unseen[name] for name in ("chain_tau", "agreement", "divergence", "alone")
        }
        assert row["seconds"] == log[-1]["seconds"] and row["cpu_seconds"] >= 0
    training = json.loads(out.read_text())["training"]
    assert (training["learnt"], training["unseen"], training["recorded"]) == (98, 2, True)

    before = {path: path.stat().st_mtime_ns for path in common.work.rglob("*")}
    main([*options, *recording, "--steps=2", "--only", "baseline", f"--json={out}"])
    assert before == {path: path.stat().st_mtime_ns for path in common.work.rglob("*")}
    assert [row["variant"] for row in rows(out)] == ["baseline", "n-0"]

    capsys.readouterr()
    with pytest.raises(SystemExit) as stopped:
        main([*options, "--steps=3", "--only", "n-0"])
    assert stopped.value.code == 1 and "other settings" in capsys.readouterr().err


def test_a_killed_training_goes_on_and_its_seconds_are_of_all_steps(target, common, monkeypatch):
    jobs, _ = plan(target, replace(Recipe(), rows=1, row=64, steps=4), common)
    job = jobs["n-0"]
    clock = iter([10.0, 13.0])

    def killed(config, target, data, out, recipe, *rest, **more):
        train(config, target, data, out, replace(recipe, steps=1), *rest, **more)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(ablations, "train", killed)
        with pytest.raises(KeyboardInterrupt):
            run(job)
    with monkeypatch.context() as patched:
        patched.setattr("time.process_time", lambda: next(clock))
        row = run(job)
    steps = [json.loads(line)["step"] for line in (job.folder / "log.jsonl").read_text().splitlines()]
    assert steps == [0, 3], "the second run began at step 1, so it logged no step 0 of its own"
    assert row["cpu_seconds"] == 4.0, "3 seconds for 3 steps"
    assert run(job) == row


def test_two_at_once_give_what_one_after_another_does(options, common, tmp_path):
    outs = [tmp_path / "one.json", tmp_path / "two.json"]
    only = ["--steps=1", "--only", "n-0"]
    main([*options, *only, f"--json={outs[0]}"])
    main([*options, *only, f"--work={tmp_path / 'other'}", "--jobs=2", f"--json={outs[1]}"])
    (one,), (two,) = map(rows, outs)
    assert one.keys() == two.keys()
    for name in ("variant", "steps", "trained_parameters"):
        assert one[name] == two[name]
    assert two["divergence"] == pytest.approx(one["divergence"], rel=0.05)  # Threads may add up in another order.


def test_too_few_answers_to_check_on_are_refused(options, tmp_path, answers, capsys):
    few = tmp_path / "few.jsonl"
    few.write_text("".join(answers.read_text().splitlines(keepends=True)[:99]))
    with pytest.raises(SystemExit) as stopped:
        main([*options, f"--answers={few}", "--steps=1"])
    assert stopped.value.code == 1 and "Give 100 or more" in capsys.readouterr().err
