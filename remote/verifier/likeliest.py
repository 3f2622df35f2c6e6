"""What the target might have said: its likeliest tokens, of logits, for whoever teaches a drafter."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from drafter.learning.distributions import MOST, NONE, Floats, Ids

LEAST = 1 / 1024
"""Tokens less likely than this are left to the tail. They teach next to nothing, and most of the bytes are theirs."""


@torch.no_grad()
def likeliest(logits: Tensor, most: int = MOST) -> tuple[Ids, Floats]:
    """The target's distribution at temperature 1, before any setting of sampling, of (N, V) float32 logits.

    Returns tokens (N, MOST), likeliest first, at most `most` and at least one each, then `NONE`; and their natural
    logarithms, as float16 has them, then -inf. A logit of inf shares all of the probability with others of inf.
    """
    if (infinite := logits.isposinf()).any():
        logits = torch.where(infinite.any(dim=-1, keepdim=True), torch.where(infinite, 0.0, -torch.inf), logits)
    top = logits.topk(min(most, MOST, logits.shape[-1]), dim=-1)
    log_probs = top.values - logits.logsumexp(dim=-1, keepdim=True)
    kept = log_probs >= math.log(LEAST)
    kept[:, 0] = True
    tokens = np.full((len(logits), MOST), NONE, np.int64)
    rows = np.full((len(logits), MOST), -np.inf, np.float32)
    width = top.indices.shape[-1]
    tokens[:, :width] = torch.where(kept, top.indices, NONE).cpu().numpy()
    rows[:, :width] = torch.where(kept, log_probs.clamp(max=0.0), -torch.inf).half().float().cpu().numpy()
    return tokens, rows
