"""The target's likeliest tokens by its logits, for teaching a drafter."""

from __future__ import annotations

import math

import numpy as np

from drafter.learning.distributions import MOST, NONE, Floats, Ids

LEAST = 1 / 1024
"""Tokens less likely than this belong to the tail. They teach next to nothing, and would take most of the bytes."""


def likeliest(logits: Floats, most: int = MOST) -> tuple[Ids, Floats]:
    """The target's distribution at temperature 1, before any setting of sampling, of (N, V) float32 logits.

    Returns tokens (N, MOST), likeliest first, at least one and at most `most` each, padded with `NONE`; and the natural
    logarithms of their probabilities, rounded to float16, padded with -inf. Of equally likely tokens the lower id comes
    first. Logits of inf share all of the probability.
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
