"""What each of two processes does in `test_processes.py`: learn the toy, unbroken and killed; answer; train a drafter.

torchrun --nproc-per-node 2 -m tests.drafter.together PAIR OUT
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, AutoTokenizer

from drafter.training.answers import generate_answers
from drafter.training.loop import Schedule, fit
from drafter.training.losses import Losses
from drafter.training.processes import choose_device, processes

STEPS, KILLED = 7, 3
QUESTIONS = [["list files"], ["unpack a tar archive", "and delete it?"], ["find"], ["delete a file"], ["show usage"]]


class Toy(nn.Module):
    """Learns by sums and products only, which autocast leaves in float32."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.bias = nn.Parameter(torch.randn(4, 4)), nn.Parameter(torch.randn(4))

    def loss(self, number: int) -> Tensor:
        """The loss of batch `number`, with noise that the model draws. Only odd batches depend on the bias."""
        rows = (self.layer * torch.randn(4, 4) - number % 5).pow(2).sum()
        return rows + (self.bias * number).pow(2).sum() if number % 2 else rows


def learn(out: Path, steps: int) -> Toy:
    model = Toy()

    def losses(number: int) -> Losses:
        return Losses(model.loss(number), 0.5, [0.5])

    fit(model, itertools.count, losses, out, schedule(steps))
    return model


def schedule(steps: int) -> Schedule:
    return Schedule(steps=steps, warmup=1, decay=0.0)


def main(pair: Path, out: Path) -> None:
    choose_device("cpu")
    together = processes()
    weights = {"whole": learn(out / "whole", STEPS).state_dict()}
    learn(out / "killed", KILLED)
    weights["resumed"] = learn(out / "killed", STEPS).state_dict()
    torch.save(weights, out / f"{together.process_index}.pt")

    target = AutoModelForCausalLM.from_pretrained(pair / "target").eval()
    tokenizer = AutoTokenizer.from_pretrained(pair / "target")
    generate_answers(target, tokenizer, QUESTIONS, out / "answers.jsonl", batch=1, new_tokens=20)

    from app.cli.__main__ import main as outrider

    options = ["--out", str(out / "mine"), "--prompts", str(out / "questions.jsonl"), "--steps", "2"]
    sys.argv = ["outrider", "drafter", "train", "--target", str(pair / "target"), *options, "--device", "cpu"]
    outrider()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
