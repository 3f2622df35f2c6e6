"""What the target might have said: its likeliest tokens, of logits, for whoever teaches a drafter."""

from __future__ import annotations

import math

import numpy as np

from drafter.learning.distributions import MOST, NONE, Floats, Ids

LEAST = 1 / 1024
"""Tokens less likely than this are left to the tail. They teach next to nothing, and most of the bytes are theirs."""


def likeliest(logits: Floats, most: int = MOST) -> tuple[Ids, Floats]:
    """The target's distribution at temperature 1, before any setting of sampling, of (N, V) float32 logits.

    Returns tokens (N, MOST), likeliest first, at most `most` and at least one each, then `NONE`; and their natural
    logarithms, as float16 has them, then -inf. Of equally likely ones the lower number comes first. A logit of inf
    shares all of the probability with others of inf.
    """
    tokens = np.full((len(logits), MOST), NONE, np.int64)
    chances = np.full((len(logits), MOST), -np.inf, np.float32)
    for row, found in enumerate(logits):
        log_probs = log_softmax(found)
        # At most 1 / LEAST of them, so a whole vocabulary is never sorted.
        listed = np.flatnonzero(log_probs >= math.log(LEAST))
        if not len(listed):
            listed = np.array([log_probs.argmax()])
        best = listed[np.argsort(-log_probs[listed], kind="stable")][: min(most, MOST)]
        tokens[row, : len(best)] = best
        chances[row, : len(best)] = log_probs[best].astype(np.float16)
    return tokens, chances


def log_softmax(logits: Floats) -> Floats:
    """(V,) logits, of which some may be infinite -> (V,)."""
    best = logits.max()
    below = np.where(logits == np.inf, np.float32(0), np.float32(-np.inf)) if best == np.inf else logits - best
    log_probs: Floats = below - np.log(np.exp(below).sum())
    return log_probs
