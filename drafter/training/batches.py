"""Packed batches of conversations, with what each token may see of the target's memory."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from drafter.model import NEVER
from drafter.training.recipe import Recipe

OVERLAP = 3
"""Tokens before the anchor that a self-attention with limited sight sees."""

CHECKED, CHECKED_STEP = 3, 10**9
"""Batches of unseen answers for a check, and the number of the first one. Training never gets to this number."""


@dataclass(frozen=True)
class AnsweredConversation:
    """Token ids, and the spans of tokens that the target generated."""

    ids: list[int]
    learn: list[tuple[int, int]]


@dataclass
class Batch:
    """Arrays of shape `(rows, row)`. `segments` are numbers of conversations within a row; 0 is padding."""

    ids: Tensor
    positions: Tensor
    segments: Tensor
    learn: Tensor
    """bool: whether the target's distribution of the token *after* this one is learnt."""
    start: Tensor
    """Index, within the row, of the newest token whose memory this query sees. Before the query's own segment: none."""
    near: Tensor
    """Index of the first token that the self-attention sees."""

    @property
    def causal(self) -> Tensor:
        """(rows, row, row) bool: a token sees its own conversation up to itself."""
        index = torch.arange(self.ids.shape[1], device=self.ids.device)
        return (self.segments[:, :, None] == self.segments[:, None, :]) & (index[:, None] >= index)

    def to(self, device: torch.device | str) -> Batch:
        return Batch(*(getattr(self, name).to(device) for name in self.__dataclass_fields__))


def anchors(
    length: int, learn: Sequence[tuple[int, int]], opening: int, recipe: Recipe, rng: np.random.Generator
) -> np.ndarray:
    """For each token, the index of the newest token whose memory it sees, or -1. It is always before the token itself.

    `opening`: length of the beginning that all conversations share. Its memory is there even in a conversation that
    begins offline.
    """
    anchored = np.ones(length, bool)
    for begin, end in learn:
        draw = rng.random()
        if draw < recipe.tail:
            gap = int(np.exp(rng.uniform(np.log(12), np.log(256))))
        else:
            gap = int(rng.integers(recipe.gaps[0], recipe.gaps[1] + 1))
        anchored[begin:end] = (np.arange(end - begin) + int(rng.integers(gap))) % gap == 0
    if rng.random() < recipe.blank:
        anchored[learn[-2][1] if len(learn) > 1 else opening :] = False
    newest = np.maximum.accumulate(np.where(anchored, np.arange(length), -1))
    return np.concatenate(([-1], newest[:-1]))


def batches(data: list[AnsweredConversation], recipe: Recipe, first: int = 0, stride: int = 1) -> Iterator[Batch]:
    """An endless stream of packed batches, number first, first + stride, ... Each is a function of its number.

    So a killed run can skip the batches that it has seen, and processes that train together use different ones.
    """
    step, opening = first, len(os.path.commonprefix([sample.ids for sample in data[:200]]))
    fade = (recipe.local or 0.0) * recipe.steps
    while True:
        rng = np.random.default_rng([recipe.seed, step])
        shape = (recipe.rows, recipe.row)
        ids, positions, segments, near = (np.zeros(shape, np.int64) for _ in range(4))
        learn, start = np.zeros(shape, bool), np.zeros(shape, np.int64)
        used, count, misses = [0] * recipe.rows, [0] * recipe.rows, 0
        while misses < 4:
            sample = data[int(rng.integers(len(data)))]
            length = min(len(sample.ids), recipe.row)
            fitting = [row for row in range(recipe.rows) if used[row] + length <= recipe.row]
            if not fitting:
                misses += 1
                continue
            row = max(fitting, key=lambda r: used[r])
            at, used[row], count[row] = used[row], used[row] + length, count[row] + 1
            span = slice(at, at + length)
            ids[row, span], positions[row, span] = sample.ids[:length], np.arange(length)
            segments[row, span] = count[row]
            start[row, span] = anchors(len(sample.ids), sample.learn, opening, recipe, rng)[:length] + at
            if rng.random() * fade < fade - step // stride:
                near[row, span] = np.maximum(start[row, span] - OVERLAP, 0)
            for begin, end in sample.learn:
                learn[row, at + begin - 1 : min(at + end - 1, at + length)] = True
        yield Batch(*(torch.from_numpy(array) for array in (ids, positions, segments, learn, start, near)))
        step += stride


def additive(mask: Tensor) -> Tensor:
    """Turn a bool mask (..., M, P) into an additive one over heads (..., 1, M, P)."""
    return torch.where(mask, 0.0, NEVER).unsqueeze(-3)


def split(data: list[AnsweredConversation]) -> tuple[list[AnsweredConversation], list[AnsweredConversation]]:
    """The data to learn from, and the last fiftieth for checks.

    With fewer than 100 conversations, none is kept for checks.
    """
    unseen = len(data) // 50 if len(data) >= 100 else 0
    return data[: len(data) - unseen], data[len(data) - unseen :]


def unseen_batches(unseen: list[AnsweredConversation], recipe: Recipe) -> list[Batch]:
    """The batches for checks, the same few each time."""
    return list(itertools.islice(batches(unseen, recipe, CHECKED_STEP), CHECKED)) if unseen else []
