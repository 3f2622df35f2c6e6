"""One conversation on the device: its tokens, the drafter's cache rows, and the target's memory of it.

Slot i of every slab belongs to token i; rows of drafted nodes lie after the last token until a commit keeps those of
the accepted path and forgets the others. So after a verdict the next draft has one new row to compute: the bonus
token's. Where the target's own last layers are inferred, their rows are the drafter's guess until memory replaces
them. Not thread-safe.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drafter.coin import coin
from drafter.memory import MalformedMemory, MemoryRow, dequantise
from drafter.multicandidate import DraftSampling, grow_sampled
from drafter.search import Acceptance, Pace, Proposals, grow
from drafter.step import NEVER, KeysValues, Slab, StepGraph
from drafter.tree import ROOT, DraftTree

CHUNK = 256
"""Tokens of a prompt run in one step: bounds the mask and the activations."""


@dataclass(frozen=True)
class _Drafted:
    """Nodes whose rows are in the slabs after the last token, in the order they were run."""

    tokens: NDArray[np.int64]
    parents: NDArray[np.int64]

    def follow(self, tokens: Sequence[int]) -> NDArray[np.int64]:
        """The nodes on the path that spells the longest beginning of `tokens`."""
        path: list[int] = []
        for token in tokens:
            above = path[-1] if path else ROOT
            found = np.flatnonzero((self.parents == above) & (self.tokens == token))
            if not found.size:
                break
            path.append(int(found[0]))
        return np.array(path, np.int64)


_NOTHING = _Drafted(np.zeros(0, np.int64), np.zeros(0, np.int64))


class DraftContext:
    """The state that drafting one conversation needs. `memory_layers`: (heads, size) of each memory row."""

    def __init__(self, step: StepGraph, vocabulary: int, memory_layers: Sequence[tuple[int, int]]) -> None:
        self.tokens: list[int] = []
        """Committed tokens, and those generated offline."""
        self._step = step
        self._vocabulary = vocabulary
        self._slabs = [Slab(*shape) for shape in step.cache_shapes]
        self._cached = 0
        """Tokens from 0 on whose rows are in the slabs."""
        self._drafted = _NOTHING
        self._memory_layers = list(memory_layers)
        self._memory = Slab(*memory_layers[0])
        self._known = np.zeros(0, bool)
        """Per token: its memory is here."""
        self._visible: KeysValues | None = None
        """All known memory, contiguous; None after a change."""

    # ---- what has been said ------------------------------------------------------------------------------------------

    def commit(self, tokens: Sequence[int]) -> None:
        """Append tokens, keeping the rows of drafted nodes that they follow. Raises `ValueError` for an unknown id."""
        wrong = [token for token in tokens if not 0 <= token < self._vocabulary]
        if wrong:
            raise ValueError(f"token {wrong[0]} is not in the drafter's vocabulary of {self._vocabulary}")
        length = len(self.tokens)
        kept = self._drafted.follow(tokens)
        if kept.size:
            for slab in self._slabs:
                slab.write(length, slab.rows(length + kept))
            self._cached = length + kept.size
        self._drafted = _NOTHING
        self.tokens += tokens
        self._known = np.append(self._known, np.zeros(len(tokens), bool))

    def rewind(self, length: int) -> None:
        """Forget all tokens from position `length` on, and their memory."""
        if not 0 <= length <= len(self.tokens):
            raise ValueError(f"cannot rewind {len(self.tokens)} tokens to {length}")
        del self.tokens[length:]
        self._cached = min(self._cached, length)
        self._drafted = _NOTHING
        self._known = self._known[:length]
        self._visible = None

    # ---- what the target remembers -----------------------------------------------------------------------------------

    def remember(
        self, start: int, rows: Sequence[MemoryRow | tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]
    ) -> None:
        """Take memory of the tokens from `start` on; pieces may come in any order, and twice.

        Raises `MalformedMemory` where the rows are not of this drafter's format, or of tokens not committed here.
        """
        memory = [MemoryRow(*row) for row in rows]
        count = len(memory[0].keys) if memory else 0
        for row, shape in zip(memory, self._memory_layers):
            if not row.keys.shape == row.values.shape == (count, *shape):
                raise MalformedMemory(f"memory of shape {row.keys.shape}; this drafter takes {(count, *shape)}")
        if len(memory) != len(self._memory_layers):
            raise MalformedMemory(f"{len(memory)} rows of memory; this drafter takes {len(self._memory_layers)}")
        if start < 0 or start + count > len(self.tokens):
            raise MalformedMemory(f"memory of tokens {start} to {start + count} of {len(self.tokens)}")
        for slab, row in zip([self._memory, *self._slabs[1:]], memory):
            keys, values = dequantise(row.keys, row.key_scales), dequantise(row.values, row.value_scales)
            slab.write(start, (keys.swapaxes(0, 1), values.swapaxes(0, 1)))
        self._known[start : start + count] = True
        self._visible = None

    @property
    def memory_length(self) -> int:
        """How many tokens from the first on have their memory here, without a gap."""
        return int(np.argmin(np.append(self._known, False)))

    # ---- drafting ----------------------------------------------------------------------------------------------------

    def draft(
        self, pace: Pace, sampling: DraftSampling | None = None, acceptance: Acceptance | None = None
    ) -> DraftTree:
        """Continuations of the last token: the likeliest ones, or with `sampling` drawn ones. Commits nothing.

        `acceptance` turns the drafter's log-probabilities into the chances that nodes are chosen by.
        """
        first = self._run_tokens()
        length = len(self.tokens)
        most = max(0, pace.breadth * (pace.depth - 1))
        tokens, parents = np.zeros(most, np.int64), np.zeros(most, np.int64)
        sees = np.zeros((most + 1, most), bool)  # The last row stands for the root: index -1 sees no node.
        count = 0

        def expand(new: NDArray[np.int64], above: NDArray[np.int64]) -> Proposals:
            nonlocal count
            rows = np.arange(count, count + len(new))
            tokens[rows], parents[rows], count = new, above, count + len(new)
            sees[rows] = sees[above]
            sees[rows, rows] = True
            mask = np.zeros((len(new), length + count), np.float32)
            mask[:, length:][~sees[rows, :count]] = NEVER
            positions = length - 1 + sees[rows].sum(axis=1)
            past = [slab.rows(length + int(rows[0])) for slab in self._slabs]
            step = self._step(new, positions, mask, past, self._memory_rows())
            for slab, pair in zip(self._slabs, step.rows):
                slab.write(length + int(rows[0]), pair)
            return step.log_probs, step.ids

        if sampling is None:
            tree = grow(first, expand, pace, acceptance)
        else:
            tree = grow_sampled(first, expand, pace, sampling, length, acceptance)
        self._drafted = _Drafted(tokens[:count], parents[:count])
        return tree

    def generate(self, temperature: float, seed: int) -> Iterator[int]:
        """The drafter alone, for as long as the caller asks; each token is committed as it is yielded.

        Temperature 0 takes the likeliest token. Otherwise the token at a position is drawn from the step's top K with
        the coin of (`seed`, position), the one that the verifier tosses there.
        """
        while True:
            log_probs, ids = self._run_tokens()
            token = int(ids[0, 0])
            if temperature > 0:
                weights = np.exp((log_probs[0].astype(np.float64) - log_probs[0, 0]) / temperature)
                order = np.argsort(ids[0])
                shares = np.cumsum(weights[order])
                drawn = np.searchsorted(shares, coin(seed, len(self.tokens)) * shares[-1], side="right")
                token = int(ids[0, order[min(drawn, len(order) - 1)]])
            self.commit([token])
            yield token

    def _run_tokens(self) -> Proposals:
        """Run every token without rows, and the last one in any case; what may follow the last one, (1, K) each."""
        if not self.tokens:
            raise ValueError("nothing to continue: no token is committed")
        start = min(self._cached, len(self.tokens) - 1)
        while True:
            end = self._chunk_end(start)
            mask = np.triu(np.full((end - start, end), NEVER), k=start + 1)
            past = [slab.rows(start) for slab in self._slabs]
            new = np.array(self.tokens[start:end], np.int64)
            step = self._step(new, np.arange(start, end), mask, past, self._memory_rows())
            guessed = np.flatnonzero(~self._known[start:end])
            for slab, (keys, values) in zip(self._slabs[1:], step.rows[1:]):
                slab.write(start + guessed, (keys[:, guessed], values[:, guessed]))
            self._slabs[0].write(start, step.rows[0])
            if end == len(self.tokens):
                self._cached = end
                return step.log_probs[-1:], step.ids[-1:]
            start = end

    def _chunk_end(self, start: int) -> int:
        end = min(start + CHUNK, len(self.tokens))
        if len(self._slabs) > 1:
            # Within a step a token sees the guessed rows of those before it. Where the target's own are known, they
            # come from the slab: so such tokens run first, and the last token never with them.
            known = self._known[start:end] & (np.arange(start, end) < len(self.tokens) - 1)
            turns = np.flatnonzero(known[:-1] & ~known[1:])
            end = start + int(turns[0]) + 1 if turns.size else end
        return end

    def _memory_rows(self) -> KeysValues:
        if self._visible is None:
            self._visible = self._memory.rows(np.flatnonzero(self._known))
        return self._visible
