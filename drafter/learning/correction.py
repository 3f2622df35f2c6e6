"""Learns a low-rank correction of a drafter's logits from samples, in numpy.

The loss is the cross-entropy with the target's distribution, where known, and elsewhere with its choice. In five-fold
cross-validation over 200 answers at temperature 0, learning from its choices alone gains 6.6 % tokens per round, and
this 11.5 %. It is taken over the drafter's likeliest tokens, those of the target, and all other tokens together, which
keep their mass. The gradient touches only the columns of these tokens, so a step costs a few thousand numbers per row,
whatever the vocabulary.

The form is that of low-rank adaptation (LoRA, arXiv 2106.09685) at the head. Adam is that of arXiv 1412.6980, with
separate moments for each column, which change only when the column is touched. When to stop is not guessed: some
samples are held out, and the pass and the strength with the most correct guesses on them are taken, or none. The
cross-entropy would not do for that: for a target that always says its likeliest token, it falls as guesses become
surer, whether they are right or not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drafter.learning.samples import Ids, Samples
from drafter.step import Correction, Floats

FIRST, SECOND, SMALL = 0.9, 0.99, 1e-8
"""Adam's two decay rates, and the epsilon that keeps it from dividing by zero."""
STRENGTHS = (1.0, 0.7, 0.4, 0.2)
"""Strengths that are tried, as shares of the learnt correction."""
ROWS_AT_ONCE = 256
"""Samples that are judged at once: each takes as many columns as it has likeliest tokens."""
PATIENCE = 2
"""Passes without a gain after which learning stops."""


@dataclass(frozen=True)
class Rates:
    """Hyperparameters of learning."""

    rank: int = 32
    rows: int = 128
    """Samples in a step."""
    epochs: int = 8
    """Most passes through the samples."""
    rate: float = 2e-3
    """Step size of both matrices."""
    decay: float = 1e-2
    """Weight decay of a touched column in a step, as a share of `rate`."""


def learn(
    samples: Samples,
    judged: Samples,
    vocabulary: int,
    rates: Rates = Rates(),
    seed: int = 0,
    halted: Callable[[], bool] = lambda: False,
) -> Correction | None:
    """The correction, learnt from `samples`, that guesses best on `judged`, or None if no correction is better.

    `vocabulary`: the number of tokens that the head can draft. `halted` is checked before each pass; once it holds,
    learning stops with the best so far.
    """
    samples, judged = samples.take((samples.chosen >= 0) | samples.chances.any(axis=1)), judged.take(judged.chosen >= 0)
    if not len(samples) or not len(judged):
        return None
    learner, best, most, in_vain = _Learner(samples, vocabulary, rates, seed), None, agreement(judged, None), 0
    for _ in range(rates.epochs):
        if halted() or in_vain == PATIENCE:
            break
        learner.learn(samples)
        learnt = learner.correction
        tried = [Correction(learnt.down, learnt.up * np.float32(strength)) for strength in STRENGTHS]
        right = [agreement(judged, one) for one in tried]
        in_vain += 1
        if max(right) > most:
            most, best, in_vain = max(right), tried[int(np.argmax(right))], 0
    return best


class _Learner:
    """A correction that learns. At first it has no effect: `down` is random and `up` is zero."""

    def __init__(self, samples: Samples, vocabulary: int, rates: Rates, seed: int) -> None:
        hidden = samples.states.shape[1]
        self._rates = rates
        self._random = np.random.default_rng(seed)
        self._down = self._random.normal(size=(hidden, rates.rank)).astype(np.float32) / np.float32(np.sqrt(hidden))
        self._up = np.zeros((vocabulary, rates.rank), np.float32)  # Transposed, so that a column is accessed as a row.
        self._moments = [np.zeros_like(part) for part in (self._down, self._down, self._up, self._up)]
        self._steps = 0
        self._touched = np.zeros(vocabulary, np.int64)
        """How often each column was touched."""
        self._scale = np.float32(1.0 / max(1e-6, float(np.sqrt(np.square(samples.states).mean()))))
        """Scales hidden states to size 1."""

    @property
    def correction(self) -> Correction:
        """What has been learnt so far."""
        return Correction(self._down * self._scale, np.ascontiguousarray(self._up.T))

    def learn(self, samples: Samples) -> None:
        """Go through the samples once, in random order."""
        order = self._random.permutation(len(samples))
        for begin in range(0, len(order), self._rates.rows):
            self._step(samples.take(order[begin : begin + self._rates.rows]))

    def _step(self, samples: Samples) -> None:
        states = samples.states * self._scale
        tokens, base, wanted, rest = _candidates(samples, len(self._up))
        low = states @ self._down  # (B, R)
        columns = self._up[tokens]  # (B, C, R)
        away = _softmax(base + np.einsum("br,bcr->bc", low, columns), rest) - wanted
        away /= np.float32(len(states))
        to_low = np.einsum("bc,bcr->br", away, columns)
        unique, place = np.unique(tokens, return_inverse=True)
        to_columns = np.zeros((len(unique), self._up.shape[1]), np.float32)
        np.add.at(to_columns, place.reshape(-1), (away[:, :, None] * low[:, None, :]).reshape(-1, low.shape[1]))
        self._move(states.T @ to_low, unique, to_columns)

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
    """The update direction, from the bias-corrected moments."""
    whole, square = 1 - FIRST**steps, 1 - SECOND**steps
    direction: Floats = (first / whole / (np.sqrt(second / square) + SMALL)).astype(np.float32)
    return direction


def _candidates(samples: Samples, vocabulary: int) -> tuple[Ids, Floats, Floats, Floats]:
    """The tokens that count at each sample: (tokens (N, C), log-probabilities, wanted shares, log-probability of all
    others (N,)).

    A token that is not among the drafter's likeliest gets the mean of the remaining probability. An empty place, or one
    whose token occurs at another place, has probability 0 and is not wanted.
    """
    likeliest, log_probs = samples.likeliest, samples.log_probs
    left = np.maximum(1.0 - np.exp(log_probs).sum(axis=1), 1e-6)
    mean = np.log(left) - np.log(max(1, vocabulary - likeliest.shape[1]))
    unknown = ~samples.chances.any(axis=1, keepdims=True)
    named = np.concatenate((samples.chosen[:, None], samples.said), axis=1)
    shares = np.concatenate((unknown, samples.chances), axis=1, dtype=np.float32)
    again = (named[:, 1:] == named[:, :1]) & (named[:, :1] >= 0)
    shares[:, 1:] += again * shares[:, :1]
    named[again.any(axis=1), 0] = -1
    found = (named[:, :, None] == likeliest[:, None, :]) & (named >= 0)[:, :, None]  # (N, 9, K)
    new = (named >= 0) & ~found.any(axis=2)
    tokens = np.concatenate((likeliest, np.where(new, named, likeliest[:, :1])), axis=1)
    base = np.concatenate((log_probs, np.where(new, mean[:, None], -np.inf)), axis=1).astype(np.float32)
    wanted = np.concatenate(((shares[:, :, None] * found).sum(axis=1), shares * new), axis=1).astype(np.float32)
    return tokens, base, wanted, np.log(left).astype(np.float32)


def _softmax(logits: Floats, rest: Floats) -> Floats:
    """Probabilities of the candidates, (N, C), among all tokens. The others have the logit `rest` (N,)."""
    most = np.maximum(logits.max(axis=1), rest)
    weights, others = np.exp(logits - most[:, None]), np.exp(rest - most)
    chances: Floats = weights / (weights.sum(axis=1) + others)[:, None]
    return chances


def agreement(samples: Samples, correction: Correction | None) -> float:
    """Share of the samples in which the best guess under the correction is the target's token.

    The samples' log-probabilities must be those without a correction.
    """
    right = 0
    for begin in range(0, len(samples), ROWS_AT_ONCE):
        part = samples.take(slice(begin, begin + ROWS_AT_ONCE))
        logits = part.log_probs
        if correction is not None:
            columns = correction.up[:, part.likeliest]
            logits = logits + np.einsum("nr,rnk->nk", part.states @ correction.down, columns)
        best = np.take_along_axis(part.likeliest, logits.argmax(axis=1)[:, None], axis=1)[:, 0]
        right += int((best == part.chosen).sum())
    return right / max(1, len(samples))
