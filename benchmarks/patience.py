"""Trains until what was kept from learning gets no better, and then lets the rate fall to zero.

A schedule whose rate falls has to know its end, and nobody knows beforehand when a drafter has learnt what it can. So
the rate stays until the held-out divergence is flat, or a bound is reached. Then it falls over a fixed number of steps.
Every piece continues from the checkpoint of the one before. So a killed run takes the same steps as one that was not.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from drafter.training.loop import LOG
from drafter.training.recipe import Recipe

R = TypeVar("R", bound=Recipe)
M = TypeVar("M")


@dataclass(frozen=True)
class Patience:
    """When a training is flat."""

    bound: int = 500
    """Most steps before the rate falls."""
    every: int = 50
    """Steps between two looks at the held-out divergence."""
    looks: int = 3
    """How many looks without a gain end it."""
    gain: float = 0.005
    """The least that counts as a gain, as a share of the best divergence so far."""
    fall: int = 150
    """Steps over which the rate falls."""

    def flat(self, divergences: Sequence[float]) -> bool:
        """Whether the last looks brought no gain over the best one before them."""
        before, last = divergences[: -self.looks], divergences[-self.looks :]
        return bool(before) and min(last) > min(before) * (1 - self.gain)


def train_until_flat(learn: Callable[[R], M], recipe: R, patience: Patience, out: Path) -> tuple[M, int]:
    """Train, and return the model and the step at which the rate began to fall.

    `learn` trains for the steps of its recipe, resuming from the checkpoint in `out`, and writes the log there.
    """
    steps = 0
    while steps < patience.bound:
        steps = min(steps + patience.every, patience.bound)
        learn(replace(recipe, steps=steps, decay=0.0))
        if patience.flat(divergences(out / LOG, steps)):
            break
    whole = steps + patience.fall
    return learn(replace(recipe, steps=whole, decay=patience.fall / whole)), steps


def divergences(log: Path, steps: int) -> list[float]:
    """The held-out divergences in a log, of the first `steps` steps. What a killed run wrote twice counts once."""
    lines = (json.loads(line) for line in log.read_text().splitlines())
    found = {line["step"]: line["unseen"]["divergence"] for line in lines if "unseen" in line}
    return [found[step] for step in sorted(found) if step < steps]
