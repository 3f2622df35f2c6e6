"""The command that trains a baseline leaves one that the benchmark can load, and continues after a kill."""

from __future__ import annotations

import json

import numpy as np
import pytest
from transformers import AutoModelForCausalLM

from benchmarks.baseline_drafters import METHODS, load_baseline
from recipes.shell_guide.baselines import main

pytestmark = pytest.mark.training


@pytest.fixture
def answers(tmp_path):
    rng = np.random.default_rng(0)
    lines = [{"ids": rng.integers(5, 60, 40).tolist(), "learn": [[10, 40]]} for _ in range(8)]
    path = tmp_path / "answers.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.mark.parametrize("method", METHODS)
def test_a_trained_baseline_can_be_loaded(tiny_pair, tmp_path, answers, capsys, method):
    target, work, out = tiny_pair / "target", tmp_path / "work", tmp_path / "out"
    options = [
        f"--answers={answers}",
        f"--target={target}",
        f"--which={method}",
        "--rows=1",
        "--row=64",
        "--device=cpu",
    ]
    options += ["--unroll=3", f"--work={work}", f"--out={out}"]
    main([*options, "--steps=1"])
    main([*options, "--steps=3"])
    log = [json.loads(line) for line in (work / "log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in log] == [0, 2] and log[0]["seconds"] <= log[1]["seconds"]
    assert f"{method}: " in capsys.readouterr().out
    model = load_baseline(out, AutoModelForCausalLM.from_pretrained(target))
    assert model.config.steps == 3 and model.config.seconds == log[1]["seconds"]
    assert set(model.config.draft_vocabulary) <= {*range(5, 60), *model.config.stop_tokens}
    assert len(model.config.stop_tokens) == 1


def test_the_independent_model_has_no_head_to_keep(tiny_pair, answers):
    with pytest.raises(SystemExit):
        main([f"--answers={answers}", f"--target={tiny_pair / 'target'}", "--which=independent", "--own-head"])
