"""Samples to learn from: the drafter's state at each verified token, and what the target chose or may have said
there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drafter.cache import DraftCache
from drafter.context import DraftContext
from drafter.learning.distributions import MOST, NOTHING, Distributions
from drafter.step import Correction, Floats, KeysValues, Step, StepGraph
from models.config import DrafterConfig
from models.memory import MemoryRow

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Samples:
    """Samples at N verified tokens, in the order of the text.

    Tokens are numbered in the order of the draft vocabulary.
    """

    states: Floats
    """(N, E): the drafter's hidden states before the head."""
    likeliest: Ids
    """(N, K), best first."""
    log_probs: Floats
    """(N, K): of these tokens."""
    chosen: Ids
    """(N,): the target's tokens; -1 for one that the drafter cannot draft."""
    said: Ids
    """(N, 8): tokens that the target might have said; -1: none, or one that the drafter cannot draft."""
    chances: Floats
    """(N, 8): the target's own probabilities of these, 0 for none. All are 0 if they are not known."""

    def __len__(self) -> int:
        return len(self.chosen)

    def take(self, rows: NDArray[np.intp] | NDArray[np.bool_] | slice) -> Samples:
        """Some of them."""
        return Samples(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))

    @staticmethod
    def of(parts: Sequence[Samples]) -> Samples:
        """All of several, one after another. Raises `ValueError` for none."""
        names = Samples.__dataclass_fields__
        return Samples(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    @property
    def hits(self) -> NDArray[np.bool_]:
        """(N,): whether the drafter's likeliest token was the target's."""
        hits: NDArray[np.bool_] = self.likeliest[:, 0] == self.chosen
        return hits


@dataclass(frozen=True)
class Round:
    """What the drafter knew when it made a draft."""

    length: int
    """Tokens of the conversation."""
    memory: int
    """How many of them, from the first one on, had memory on the device."""


Chunk = tuple[int, Sequence[MemoryRow | tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]]
"""Memory of consecutive tokens: the position of the first one, and the rows of each layer."""


class Replayer:
    """Reruns a drafter over its earlier drafts, with the memory that it had then.

    `graph`: opened with `states`; its current correction is the one that is judged.
    """

    def __init__(self, graph: StepGraph, config: DrafterConfig) -> None:
        self._step = _Recorder(graph)
        self._graph = graph
        self._config = config
        order = config.draft_vocabulary or range(config.vocabulary)
        self._places = np.full(config.vocabulary + 1, -1, np.int64)  # The last entry is for non-tokens.
        self._places[list(order)] = np.arange(len(order))

    def corrected(self, correction: Correction | None) -> Replayer:
        """Switch the drafter to another correction, or to none. Returns itself."""
        self._graph.correction = Correction.none(self._config) if correction is None else correction
        return self

    def samples(
        self,
        tokens: Sequence[int],
        rounds: Sequence[Round],
        memory: Sequence[Chunk],
        target: Distributions = NOTHING,
    ) -> Samples:
        """One sample for each token from the first round on.

        `tokens`: of the conversation, to the end of the answer. `rounds`: of this answer, in their order. `memory`:
        chunks that cover what the rounds had. `target`: what the target might have said, as far as known. Raises
        `ValueError` if rounds do not match the tokens or the memory.
        """
        lengths = [one.length for one in rounds]
        if not lengths or lengths[0] < 1 or lengths != sorted(set(lengths)) or lengths[-1] >= len(tokens):
            raise ValueError("rounds that do not fit the tokens")
        cache = DraftCache(self._step, self._config.memory_layers)
        context, remembered = DraftContext(cache, self._config.vocabulary), 0
        parts = []
        for now, end in zip(rounds, [*lengths[1:], len(tokens)]):
            context.follow(tokens[: now.length])
            if now.memory > remembered:
                _remember(context, memory, remembered, min(now.memory, now.length))
                remembered = now.memory
            parts.append(self._run(context, tokens[now.length : end]))
        samples, text = Samples.of(parts), target.within(lengths[0], len(tokens)).text
        places = self._places[np.where(text.tokens < len(self._places), text.tokens, -1)]
        samples.said[text.positions - lengths[0]] = places
        samples.chances[text.positions - lengths[0]] = np.where(places < 0, 0, np.exp(text.log_probs))
        return samples

    def _run(self, context: DraftContext, gained: Sequence[int]) -> Samples:
        """The samples of a round, whose text is run as if it had been drafted."""
        context.likeliest_after(gained[:-1])
        step, rows = self._step.last, slice(-len(gained), None)
        assert step is not None
        assert step.states is not None
        return Samples(
            step.states[rows],
            self._places[step.ids[rows]],
            step.log_probs[rows],
            self._places[np.array(gained)],
            np.full((len(gained), MOST), -1, np.int64),
            np.zeros((len(gained), MOST), np.float32),
        )


class _Recorder:
    """A step that keeps its last result. It is a `DraftStep`."""

    def __init__(self, graph: StepGraph) -> None:
        self.runtime, self.cache_shapes, self.slab = graph.runtime, graph.cache_shapes, graph.slab
        self.independent_rows = False  # Needed only by the second stage, which is not used here.
        self.last: Step | None = None
        self._graph = graph

    def __call__(
        self,
        tokens: NDArray[np.int64],
        positions: NDArray[np.int64],
        mask: Floats,
        past: Sequence[KeysValues],
        memory: KeysValues,
    ) -> Step:
        self.last = self._graph(tokens, positions, mask, past, memory)
        return self.last


def _remember(context: DraftContext, memory: Sequence[Chunk], first: int, end: int) -> None:
    """Give a context the memory of the tokens `first .. end`. Raises `ValueError` if a part of it is missing."""
    for start, rows in memory:
        low, high = max(first, start), min(end, start + len(rows[0][0]))
        if low < high:
            cut = slice(low - start, high - start)
            context.remember(low, [tuple(array[cut] for array in row) for row in rows])  # type: ignore[misc]
    if context.memory_length < end:
        raise ValueError("memory that the round had is gone")
