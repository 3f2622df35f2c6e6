"""How far a drafter's distribution is from the target's, and what is told of one batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

Divergence = Literal["kl", "tv", "lk"]
"""Forward KL; total variation, the share of drafts that rejection sampling refuses; minus the logarithm of the rest."""

DIVERGENCES: tuple[Divergence, ...] = get_args(Divergence)


@dataclass
class Losses:
    """Of one batch."""

    total: Tensor
    """What is minimised."""
    divergence: float
    """KL(target || drafter) in nats, whatever is minimised."""
    agreement: list[float] = field(default_factory=list)
    """Share of queries, by staleness from 1 on, whose best token is the target's."""
    overall: float = 0.0
    """The same share, of all queries."""


def divergence(wanted: Tensor, guessed: Tensor, kind: Divergence) -> Tensor:
    """Of each row, the distance of the drafter's log-probabilities `guessed` (n, V) from the target's `wanted`: (n,).

    "kl" covers all that the target might say. "tv" is what decides acceptance, 1 - sum(min(p, q)), but its gradient
    fades where the two hardly overlap; "lk", -log(sum(min(p, q))), has the same optimum and no such weakness
    (LK losses, arXiv 2602.23881).
    """
    if kind == "kl":
        return (wanted.exp() * (wanted - guessed)).sum(-1)
    overlap = torch.minimum(wanted, guessed).exp().sum(-1)
    return 1 - overlap if kind == "tv" else -overlap.log()


def distances(wanted: Tensor, guessed: Tensor, kind: Divergence) -> tuple[Tensor, Tensor]:
    """What is minimised, and KL(target || drafter) without a gradient: (n,) each, and computed once where it is one."""
    away = divergence(wanted, guessed, kind)
    return away, away.detach() if kind == "kl" else divergence(wanted, guessed.detach(), "kl")


def agrees(wanted: Tensor, guessed: Tensor) -> Tensor:
    """(n,) float32: 1 where both find the same token likeliest."""
    return (wanted.argmax(-1) == guessed.argmax(-1)).float()


def chain_tau(agreement: Sequence[float]) -> float:
    """Tokens gained per round by a chain of `len(agreement)` with these per-depth agreements, bonus included."""
    return 1.0 + float(np.cumprod(agreement).sum())
