"""Distances of a drafter's distribution from the target's, and the figures of one batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

Divergence = Literal["kl", "tv", "lk"]
"""kl: forward KL. tv: total variation, the share of drafts that rejection sampling refuses. lk: minus the logarithm of
the rest."""

DIVERGENCES: tuple[Divergence, ...] = get_args(Divergence)


@dataclass
class Losses:
    """The loss and the figures of one batch."""

    total: Tensor
    """The value that is minimised."""
    divergence: float
    """KL(target || drafter) in nats, whatever is minimised."""
    agreement: list[float] = field(default_factory=list)
    """Share of queries whose best token is the target's, by staleness from 1 on."""
    overall: float = 0.0
    """That share over all queries."""


def divergence(wanted: Tensor, guessed: Tensor, kind: Divergence) -> Tensor:
    """For each row, the distance of the drafter's log-probabilities `guessed` (n, V) from the target's `wanted`: (n,).

    "kl" covers everything that the target might say. "tv", 1 - sum(min(p, q)), decides acceptance, but its gradient
    vanishes if the two hardly overlap. "lk", -log(sum(min(p, q))), has the same optimum without this weakness (LK
    losses, arXiv 2602.23881).
    """
    if kind == "kl":
        return (wanted.exp() * (wanted - guessed)).sum(-1)
    overlap = torch.minimum(wanted, guessed).exp().sum(-1)
    return 1 - overlap if kind == "tv" else -overlap.log()


def distances(wanted: Tensor, guessed: Tensor, kind: Divergence) -> tuple[Tensor, Tensor]:
    """The distance to minimise, and KL(target || drafter) without a gradient, (n,) each.

    If both are KL, it is computed once.
    """
    away = divergence(wanted, guessed, kind)
    return away, away.detach() if kind == "kl" else divergence(wanted, guessed.detach(), "kl")


def agrees(wanted: Tensor, guessed: Tensor) -> Tensor:
    """(n,) float32: 1 where both have the same likeliest token."""
    return (wanted.argmax(-1) == guessed.argmax(-1)).float()


def chain_tau(agreement: Sequence[float]) -> float:
    """Tokens gained per round by a chain with these agreements at each depth, bonus included."""
    return 1.0 + float(np.cumprod(agreement).sum())
