"""Learns a low-rank correction of a drafter's logits (`drafter.step.Correction`), in numpy.

For each verified token there is the drafter's hidden state before the head, its likeliest tokens, and the token that
the target chose. Learnt is the cross-entropy of that choice among the likeliest tokens, the choice itself, and all
others taken together, which keep their mass. The gradient touches only the columns of these tokens, so a step costs a
few thousand numbers a row whatever the vocabulary.

The form of the correction is that of low-rank adaptation (LoRA, arXiv 2106.09685), at the head; Adam is that of arXiv
1412.6980, with moments for each column of its own, which move only when the column is touched.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drafter.step import Correction, Floats

Ids = NDArray[np.int64]

FIRST, SECOND, SMALL = 0.9, 0.99, 1e-8
"""Adam's two rates of forgetting, and what keeps it from dividing by zero."""


@dataclass(frozen=True)
class Samples:
    """What was seen at N verified tokens. Tokens are counted in the order of the draft vocabulary."""

    states: Floats
    """(N, E): the drafter's hidden states before the head."""
    likeliest: Ids
    """(N, K)"""
    log_probs: Floats
    """(N, K), of these tokens, without any correction."""
    chosen: Ids
    """(N,): the target's tokens."""

    def __len__(self) -> int:
        return len(self.chosen)

    def take(self, rows: NDArray[np.intp] | slice) -> Samples:
        """Some of them."""
        return Samples(self.states[rows], self.likeliest[rows], self.log_probs[rows], self.chosen[rows])

    @staticmethod
    def of(parts: list[Samples]) -> Samples:
        """All of several, one after another."""
        return Samples(
            *(np.concatenate([getattr(part, name) for part in parts]) for name in Samples.__dataclass_fields__)
        )


@dataclass(frozen=True)
class Rates:
    """How fast it learns."""

    rank: int = 32
    rows: int = 128
    """Samples in a step."""
    epochs: int = 3
    rate: float = 3e-3
    """Step size of both matrices."""
    decay: float = 1e-3
    """How much of a touched column is forgotten in a step, as a share of `rate`."""


class CorrectionLearner:
    """A correction that learns. It begins as none: `down` is random and `up` is zero.

    `hidden`: E. `vocabulary`: the number of tokens that the head can draft.
    """

    def __init__(self, hidden: int, vocabulary: int, rates: Rates = Rates(), seed: int = 0) -> None:
        self._rates = rates
        self._random = np.random.default_rng(seed)
        self._down = self._random.normal(size=(hidden, rates.rank)).astype(np.float32) / np.float32(np.sqrt(hidden))
        self._up = np.zeros((vocabulary, rates.rank), np.float32)  # Transposed: a column is touched as a row.
        self._moments = [np.zeros_like(part) for part in (self._down, self._down, self._up, self._up)]
        self._steps = 0
        self._touched = np.zeros(vocabulary, np.int64)
        """How often each column was touched."""
        self._scale: float | None = None
        """What brings hidden states to size 1; None before the first samples."""

    @property
    def correction(self) -> Correction:
        """What has been learnt so far."""
        return Correction(self._down * np.float32(self._scale or 1.0), np.ascontiguousarray(self._up.T))

    def learn(self, samples: Samples) -> float:
        """Go through the samples a few times, in random order; returns the mean loss of the last time, in nats."""
        rates, losses = self._rates, [0.0]
        if not len(samples):
            return 0.0
        if self._scale is None:
            self._scale = 1.0 / max(1e-6, float(np.sqrt(np.square(samples.states).mean())))
        for _ in range(rates.epochs):
            order, losses = self._random.permutation(len(samples)), []
            for begin in range(0, len(order), rates.rows):
                rows = order[begin : begin + rates.rows]
                losses.append(self._step(samples.take(rows)) * len(rows))
        return sum(losses) / len(samples)

    def _step(self, samples: Samples) -> float:
        states = samples.states * np.float32(self._scale or 1.0)
        tokens, base, right, rest = candidates(samples, len(self._up))
        low = states @ self._down  # (B, R)
        columns = self._up[tokens]  # (B, C, R)
        logits = base + np.einsum("br,bcr->bc", low, columns)
        chances, _ = softmax(logits, rest)
        loss = -np.log(np.maximum(np.take_along_axis(chances, right[:, None], axis=1), 1e-12)).mean()
        away = chances / np.float32(len(states))
        np.put_along_axis(
            away, right[:, None], np.take_along_axis(away, right[:, None], axis=1) - np.float32(1 / len(states)), axis=1
        )
        to_low = np.einsum("bc,bcr->br", away, columns)
        unique, place = np.unique(tokens, return_inverse=True)
        to_columns = np.zeros((len(unique), self._up.shape[1]), np.float32)
        np.add.at(to_columns, place.reshape(-1), (away[:, :, None] * low[:, None, :]).reshape(-1, low.shape[1]))
        self._move(states.T @ to_low, unique, to_columns)
        return float(loss)

    def _move(self, to_down: Floats, columns: Ids, to_up: Floats) -> None:
        """One step of Adam."""
        rates, (down_1, down_2, up_1, up_2) = self._rates, self._moments
        self._steps += 1
        self._touched[columns] += 1
        down_1 += (1 - FIRST) * (to_down - down_1)
        down_2 += (1 - SECOND) * (np.square(to_down) - down_2)
        self._down -= rates.rate * _direction(down_1, down_2, np.float64(self._steps))
        up_1[columns] += (1 - FIRST) * (to_up - up_1[columns])
        up_2[columns] += (1 - SECOND) * (np.square(to_up) - up_2[columns])
        step = _direction(up_1[columns], up_2[columns], self._touched[columns][:, None].astype(np.float64))
        self._up[columns] -= rates.rate * (step + rates.decay * self._up[columns])


def _direction(first: Floats, second: Floats, steps: NDArray[np.float64] | np.float64) -> Floats:
    """The two moments, as if they had not begun at zero."""
    whole, square = 1 - FIRST**steps, 1 - SECOND**steps
    direction: Floats = (first / whole / (np.sqrt(second / square) + SMALL)).astype(np.float32)
    return direction


def candidates(samples: Samples, vocabulary: int) -> tuple[Ids, Floats, Ids, Floats]:
    """The tokens that count at each sample: (tokens (N, K+1), log-probabilities, place of the choice, of all others).

    A choice that is not among the likeliest tokens gets the mean of what these leave. Where it is among them, the last
    column holds it again with no chance.
    """
    likeliest, log_probs = samples.likeliest, samples.log_probs
    left = np.maximum(1.0 - np.exp(log_probs).sum(axis=1), 1e-6)
    found = likeliest == samples.chosen[:, None]
    here = found.any(axis=1)
    mean = np.log(left) - np.log(max(1, vocabulary - likeliest.shape[1]))
    tokens = np.concatenate((likeliest, samples.chosen[:, None]), axis=1)
    last = np.where(here, -np.inf, mean).astype(np.float32)
    base = np.concatenate((log_probs, last[:, None]), axis=1)
    right = np.where(here, found.argmax(axis=1), likeliest.shape[1])
    return tokens, base, right, np.log(left).astype(np.float32)


def softmax(logits: Floats, rest: Floats) -> tuple[Floats, Floats]:
    """Chances of the candidates (N, C), and of all other tokens (N,), whose logit is `rest`."""
    most = np.maximum(logits.max(axis=1), rest)
    weights, others = np.exp(logits - most[:, None]), np.exp(rest - most)
    total = weights.sum(axis=1) + others
    return weights / total[:, None], others / total


def agreement(samples: Samples, correction: Correction | None = None) -> float:
    """Share of the samples whose likeliest token is the target's, as the correction orders the likeliest ones."""
    if correction is None:
        return float((samples.likeliest[:, 0] == samples.chosen).mean())
    low = samples.states @ correction.down
    logits = samples.log_probs + np.einsum("br,bcr->bc", low, correction.up.T[samples.likeliest])
    best = np.take_along_axis(samples.likeliest, logits.argmax(axis=1)[:, None], axis=1)[:, 0]
    return float((best == samples.chosen).mean())
