"""How far a quantised step graph differs from the float one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drafter.step import Floats, KeysValues, StepGraph
from models.tree import NEVER

StepInputs = tuple[NDArray[np.int64], NDArray[np.int64], Floats, Sequence[KeysValues], KeysValues]
"""The arguments of one `StepGraph` call."""


@dataclass(frozen=True)
class Parity:
    """How the proposals of the quantised graph differ from those of the float graph."""

    rows: int
    """Positions that were compared."""
    agreement: float
    """Share of positions where both have the same likeliest token."""
    mean_difference: float
    largest_difference: float
    """Largest difference between the log-probabilities of tokens that both propose, in nats (the mean is
    `mean_difference`)."""

    def __str__(self) -> str:
        return (
            f"top-1 agreement {self.agreement:.1%} over {self.rows} positions; "
            f"log-probabilities differ by {self.mean_difference:.3f} on average, {self.largest_difference:.3f} at most"
        )


def prompt(step: StepGraph, tokens: Sequence[int], memory: KeysValues | None = None) -> StepInputs:
    """Inputs that run `tokens` from the beginning, with dequantised `memory` of some of them or none."""
    count = len(tokens)
    empty = [(np.zeros((heads, 0, size), np.float32),) * 2 for heads, size in step.cache_shapes]
    mask = np.triu(np.full((count, count), NEVER), k=1)
    return np.array(tokens, np.int64), np.arange(count), mask, empty, memory or empty[0]


def compare(exact: StepGraph, quantised: StepGraph, inputs: Iterable[StepInputs]) -> Parity:
    """Run both graphs on the same inputs and compare them. Raises `ValueError` if there are no inputs."""
    same, gaps = [], []
    for arguments in inputs:
        one, other = exact(*arguments), quantised(*arguments)
        same.append(one.ids[:, 0] == other.ids[:, 0])
        both = one.ids[:, :, None] == other.ids[:, None, :]
        gaps.append(np.abs(one.log_probs[:, :, None] - other.log_probs[:, None, :])[both])
    if not same:
        raise ValueError("no inputs to compare the graphs on")
    agree, gap = np.concatenate(same), np.concatenate(gaps)
    return Parity(len(agree), float(agree.mean()), float(gap.mean()), float(gap.max()))
