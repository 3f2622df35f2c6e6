"""Two processes learn what one would from both batches, answer what one would, and leave one drafter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from drafter.training.answers import generate_answers
from drafter.training.loop import fit
from drafter.training.losses import Losses
from models.config import read_config
from tests.drafter.together import QUESTIONS, STEPS, Toy, schedule
from tests.support.serving import REPOSITORY

pytestmark = pytest.mark.training


@pytest.fixture(scope="module")
def alone(tiny_pair: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The answers as one process writes them."""
    model = AutoModelForCausalLM.from_pretrained(tiny_pair / "target").eval()
    tokenizer = AutoTokenizer.from_pretrained(tiny_pair / "target")
    path = tmp_path_factory.mktemp("alone") / "answers.jsonl"
    generate_answers(model, tokenizer, QUESTIONS, path, batch=1, new_tokens=20)
    return path.read_bytes()


@pytest.fixture(scope="module")
def out(tiny_pair: Path, alone: bytes, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two processes left, started as `accelerate launch` starts them on several GPUs."""
    out = tmp_path_factory.mktemp("together")
    (out / "questions.jsonl").write_text("".join(json.dumps({"turns": turns}) + "\n" for turns in QUESTIONS))
    # An earlier run, killed while it wrote the second line: four batches are left, so two rounds of two processes.
    lines = alone.splitlines(keepends=True)
    (out / "answers.jsonl").write_bytes(lines[0] + lines[1][:-9])
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*launch, "-m", "tests.drafter.together", str(tiny_pair), str(out)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OUTRIDER_HOME": str(out / "home")}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=REPOSITORY, env=environment, text=True, **pipes) as launcher:
        try:
            printed, told = launcher.communicate(timeout=300)
        except subprocess.TimeoutExpired:
            launcher.terminate()  # Unlike a kill, it takes its processes along.
            raise
    assert launcher.returncode == 0, told
    assert printed.splitlines() == [str(out / "mine")]
    return out


def weights(out: Path, process: int) -> dict[str, dict[str, torch.Tensor]]:
    return torch.load(out / f"{process}.pt", weights_only=True)


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(one[name], other[name]) for name in one)


def test_both_end_with_the_same_weights_and_a_killed_run_goes_on(out):
    first, second = weights(out, 0), weights(out, 1)
    assert same(first["whole"], second["whole"]) and same(first["resumed"], second["resumed"])
    assert same(first["resumed"], first["whole"])
    log = [json.loads(line)["step"] for line in (out / "killed" / "log.jsonl").read_text().splitlines()]
    assert log == [0, 2, 6], "the main process alone writes it"


def test_a_step_is_one_of_both_batches(out, tmp_path):
    """One process that takes both batches a step ends like the two."""
    model, plan = Toy(), schedule(STEPS)

    def losses(step: int) -> Losses:
        total = torch.zeros(())
        for number in (2 * step, 2 * step + 1):
            torch.manual_seed(2 * 1_000_003 * plan.seed + number)
            total = total + model.loss(number) / 2
        return Losses(total, 0.5, [0.5])

    fit(model, lambda first, stride: iter(range(first, STEPS, stride)), losses, tmp_path, plan)
    both = weights(out, 0)["whole"]
    assert all(torch.allclose(weight, both[name], atol=1e-5) for name, weight in model.state_dict().items())


def test_answers_are_those_of_one_process_in_order_and_the_command_leaves_one_whole_drafter(out, alone):
    assert (out / "answers.jsonl").read_bytes() == alone
    config = read_config(out / "mine")
    read_config(out / "mine", verify=tuple(config.files))
    assert len((out / "mine.work" / "answers.jsonl").read_text().splitlines()) == len(QUESTIONS)
    assert "processes 2" in (out / "mine" / "README.md").read_text()
