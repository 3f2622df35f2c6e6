"""Notes what the sessions leave to learn from. It belongs to the engine's thread, and costs a round next to nothing."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakSet

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from remote.verifier.learning.answers import Answer, Answers
from remote.verifier.learning.trail import Trail

TOP = 8
"""Tokens of the target's distribution that are kept at each position."""


class Recorder:
    """Follows the sessions, and puts each answer that has ended into `answers`."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._trails: WeakSet[Trail] = WeakSet()

    def began(self, holder: str) -> Trail:
        """The trail of a new session."""
        trail = Trail(holder)
        self._trails.add(trail)
        return trail

    def went_on(self, trail: Trail, tokens: Sequence[int], base: int, append: Sequence[int]) -> None:
        """The session's tokens become the first `base` ones and `append`."""
        self._keep(trail, trail.go_on(tokens, base, append))

    def gained(self, trail: Trail, length: int, memory: int, logits: Tensor, rows: Sequence[int]) -> None:
        """A round after `length` tokens brought as many as there are `rows`, which it chose from these of the `logits`.

        `memory`: the first so many tokens had theirs where the draft was made.
        """
        trail.gain(length, memory, *likeliest(logits[list(rows)]))

    def remembered(self, trail: Trail, start: int, count: int, data: bytes) -> None:
        """Memory of tokens was made."""
        if self._answers.fits(len(data) + sum(one.bytes for one in self._trails)):
            trail.remember(start, count, data)

    def ended(self, trail: Trail, tokens: Sequence[int]) -> None:
        """The answer is complete: the target ended it, or nobody goes on with it."""
        self._keep(trail, trail.end(tokens))

    def _keep(self, trail: Trail, answer: Answer | None) -> None:
        if answer is not None:
            self._answers.add(trail.holder, answer)


@torch.no_grad()
def likeliest(logits: Tensor, top: int = TOP) -> tuple[NDArray[np.int32], NDArray[np.float16]]:
    """The likeliest tokens of each row of logits (n, V), best first, and their log-probabilities: (n, K) each."""
    best, ids = logits.topk(min(top, logits.shape[-1]), dim=-1)
    log_probs = best - logits.logsumexp(dim=-1, keepdim=True)
    return ids.cpu().numpy().astype(np.int32), log_probs.cpu().numpy().astype(np.float16)
