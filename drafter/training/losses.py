"""The distance of a drafter's distribution from the target's, and the figures of one batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from torch import Tensor


@dataclass
class Losses:
    """The loss and the figures of one batch."""

    total: Tensor
    """The value that is minimised."""
    divergence: float
    """KL(target || drafter) in nats."""
    agreement: list[float] = field(default_factory=list)
    """Share of queries whose best token is the target's, by staleness from 1 on."""
    overall: float = 0.0
    """That share over all queries."""


def divergence(wanted: Tensor, guessed: Tensor) -> Tensor:
    """KL(target || drafter) of each row of log-probabilities (n, V), in nats: (n,)."""
    return (wanted.exp() * (wanted - guessed)).sum(-1)


def agrees(wanted: Tensor, guessed: Tensor) -> Tensor:
    """(n,) float32: 1 where both have the same likeliest token."""
    return (wanted.argmax(-1) == guessed.argmax(-1)).float()


def chain_tau(agreement: Sequence[float]) -> float:
    """Tokens gained per round by a chain with these agreements at each depth, bonus included."""
    return 1.0 + float(np.cumprod(agreement).sum())
