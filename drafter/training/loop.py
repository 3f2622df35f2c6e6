"""The training loop of every drafter here: schedule, optimisers, log, checkpoints.

A killed run continues from its last checkpoint as if it had never stopped, because batches and all random numbers are
functions of the step. Processes that train together have separate batches and all step by the mean of their gradients,
so their weights stay the same. The loop does not depend on the model or the loss.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np
import torch
from torch import nn

from drafter.progress import stage
from drafter.training.losses import Losses, chain_tau
from drafter.training.muon import Muon
from drafter.training.precision import autocast
from drafter.training.processes import average_gradients, processes

B = TypeVar("B")

LOG = "log.jsonl"
LOGGED, SAVED = 20, 100
"""Steps between log lines, and between checkpoints."""


@dataclass(frozen=True)
class Schedule:
    """How long to train, and how fast."""

    steps: int = 1500
    rate: float = 3e-3
    warmup: int = 50
    decay: float = 0.4
    """Final share of the steps, over which the rate falls to zero."""
    seed: int = 11

    def rate_at(self, step: int) -> float:
        """The learning rate: linear warm-up, constant, linear decay to zero."""
        falling = (self.steps - step) / max(1.0, self.decay * self.steps)
        return self.rate * min(1.0, (step + 1) / self.warmup, falling)


def trained_parameters(model: nn.Module) -> int:
    """The number of trained parameters. Those borrowed from the target are frozen and do not count."""
    return sum(weight.numel() for weight in model.parameters() if weight.requires_grad)


def optimisers(model: nn.Module, rate: float) -> list[torch.optim.Optimizer]:
    """Muon for the hidden matrices. AdamW for the rest: vectors, and tables whose rows are tokens."""
    learnt = [(name.split("."), weight) for name, weight in model.named_parameters() if weight.requires_grad]
    hidden = {id(weight) for path, weight in learnt if weight.ndim == 2 and not {"embedding", "head"} & set(path)}
    return [
        Muon([weight for _, weight in learnt if id(weight) in hidden], rate),
        torch.optim.AdamW(
            [weight for _, weight in learnt if id(weight) not in hidden], lr=rate, betas=(0.9, 0.95), weight_decay=0.0
        ),
    ]


def fit(
    model: nn.Module,
    stream: Callable[[int, int], Iterator[B]],
    losses: Callable[[B], Losses],
    out: Path,
    schedule: Schedule,
    device: str = "cpu",
    check: Callable[[], dict[str, object]] | None = None,
) -> float:
    """Train for `schedule.steps`, in the quicker precision, and return the seconds that it took over all runs.

    `stream(first, stride)` gives the batches number first, first + stride, ... With n processes, process i learns from
    batch n*s + i in step s. The main process writes `log.jsonl` and `checkpoint.pt` to `out`; a killed run is resumed
    from the checkpoint. A line of the log holds the step, means over the main process's last 20 batches, and the
    seconds over all runs. With each checkpoint it also holds the result of `check`, as `unseen`.
    """
    together = processes(device)
    count, number = together.num_processes, together.process_index
    learners = optimisers(model, schedule.rate)
    learnt = [weight for weight in model.parameters() if weight.requires_grad]
    checkpoint = out / "checkpoint.pt"
    out.mkdir(parents=True, exist_ok=True)
    begin, before = _resume(checkpoint, model, learners, device)
    started, seconds = time.monotonic(), before
    recent: list[Losses] = []
    steps = zip(range(begin, schedule.steps), stream(begin * count + number, count))
    with stage("training", schedule.steps, begin, shown=together.is_main_process) as progress:
        for step, batch in steps:
            torch.manual_seed((schedule.seed * 1_000_003 + step) * count + number)
            for learner in learners:
                for group in learner.param_groups:
                    group["lr"] = schedule.rate_at(step)
            with autocast(device):
                result = losses(batch)
            result.total.backward()  # type: ignore[no-untyped-call]
            average_gradients(learnt, together)
            nn.utils.clip_grad_norm_(learnt, 1.0)
            for learner in learners:
                learner.step()
                learner.zero_grad()
            progress.advance()
            seconds = before + time.monotonic() - started
            if not together.is_main_process:
                continue
            # Without its graph, which holds memory even after the backward pass.
            recent = [*recent[1 - LOGGED :], replace(result, total=result.total.detach())]
            last = step == schedule.steps - 1
            unseen = {}
            if check is not None and ((step + 1) % SAVED == 0 or last):
                with torch.no_grad(), autocast(device):
                    unseen = {"unseen": check()}
                seconds = before + time.monotonic() - started
            if step % LOGGED == 0 or unseen or last:
                told = means(recent)
                line = json.dumps({"step": step} | told | unseen | {"seconds": round(seconds, 1)})
                with (out / LOG).open("a") as log:
                    log.write(line + "\n")
                progress.tell(f"loss {told['loss']}, chain tau {told['chain_tau']}", line)
            if (step + 1) % SAVED == 0 or last:
                _save(checkpoint, model, learners, {"step": step + 1, "seconds": seconds})
    together.wait_for_everyone()  # After this, every process can read the checkpoint.
    return seconds


def _resume(
    checkpoint: Path, model: nn.Module, learners: Sequence[torch.optim.Optimizer], device: str
) -> tuple[int, float]:
    """Load a checkpoint, if there is one. Returns the completed steps and their seconds."""
    if not checkpoint.exists():
        return 0, 0.0
    state = torch.load(checkpoint, map_location=device, weights_only=True)
    model.load_state_dict(state["model"])
    for learner, saved in zip(learners, state["learners"]):
        learner.load_state_dict(saved)
    return state["step"], state.get("seconds", 0.0)


def _save(
    checkpoint: Path, model: nn.Module, learners: Sequence[torch.optim.Optimizer], done: dict[str, float]
) -> None:
    states = {"model": model.state_dict(), "learners": [learner.state_dict() for learner in learners]}
    partial = checkpoint.with_suffix(".partial")
    torch.save({**states, **done}, partial)
    os.replace(partial, checkpoint)


def means(recent: Sequence[Losses]) -> dict[str, object]:
    """The figures of some batches, for the log."""
    agreement = np.mean([entry.agreement for entry in recent], axis=0)
    return {
        "loss": round(float(np.mean([entry.total.item() for entry in recent])), 4),
        "divergence": round(float(np.mean([entry.divergence for entry in recent])), 4),
        "agreement": [round(float(share), 3) for share in agreement],
        "chain_tau": round(chain_tau(agreement.tolist()), 3),
    }


class Unseen(msgspec.Struct, frozen=True):
    """The figures of a training log on held-out answers."""

    divergence: float
    """KL(target || drafter), nats."""
    agreement: list[float]
    """Share of tokens whose likeliest guess is the target's, by staleness from 1 on."""
    alone: float
    """That share in last turns that were drafted without any memory of them."""


class _LogLine(msgspec.Struct):
    unseen: Unseen | None = None


def read_unseen(log: Path) -> Unseen | None:
    """The last such figures in a training log, or None if there were too few answers to hold some out."""
    lines = (msgspec.json.decode(line, type=_LogLine) for line in reversed(log.read_bytes().splitlines()))
    return next((line.unseen for line in lines if line.unseen is not None), None)
