"""Labels that are distributions: what the target might have said, in place of the one token that it chose.

Online speculative decoding distils on the target's distribution (arXiv 2310.07177). Here a few of its likeliest tokens
are known and the rest is one number, so the divergence is taken over these tokens and all others together. Tokens that
the drafter cannot draft count among the others.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

LEAST = 1e-6
"""The least chance of all others, so that its logarithm stays finite."""


@dataclass(frozen=True)
class Labels:
    """How much what the target might have said counts."""

    soft: float = 1.0
    """Its weight at tokens of the text; the rest is that of the target's choice. Where it is not known, the choice has
    all."""
    branches: float = 1.0
    """The weight of what it might have said after a rejected token. 0: such tokens are not run."""


DEFAULT = Labels()
"""Soft labels gained 10 % more tokens a round than tokens in one fit, and nothing in another, of 160 answers each.
Branches gained 7 % more than soft labels, for 2.6 times the processor time, in the one fit that was made with them.
Each fit was judged on 40 answers, and fits differ by as much: `python -m benchmarks.learning` with more orders has to
confirm both.
"""


def label_losses(log_probs: Tensor, chosen: Tensor, said: Tensor, chances: Tensor, soft: float) -> Tensor:
    """The loss at each row: (n,), for the drafter's log-probabilities (n, V).

    `chosen` (n,): the target's choices, -1: one that cannot be drafted, or none. `said`, `chances` (n, 8): what it
    might have said, in the places of V, -1: none; all chances 0: not known. A row of which nothing is known is 0.
    """
    can, known = chosen >= 0, (chances > 0).any(dim=-1)
    choice = -log_probs.gather(-1, chosen.clamp(min=0)[:, None])[:, 0]
    listed = chances * (said >= 0)
    guessed = log_probs.gather(-1, said.clamp(min=0))
    others = (1 - (guessed.exp() * (said >= 0)).sum(dim=-1)).clamp(min=LEAST).log()
    spread = -(listed * guessed).sum(dim=-1) - (1 - listed.sum(dim=-1)).clamp(min=0) * others
    weight = torch.where(known, torch.where(can, soft, 1.0), 0.0)
    return weight * spread + (1 - weight) * choice * can
