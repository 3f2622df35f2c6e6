"""One conversation on the device: its tokens, the drafter's cache rows, and the target's memory of it.

Slot i of every slab belongs to token i; rows of drafted nodes lie after the last token until a commit keeps those of
the accepted path and forgets the others. So after a verdict the next draft has one new row to compute: the bonus
token's. Where the target's own last layers are inferred, their rows are the drafter's guess until memory replaces
them. Not thread-safe.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drafter.coin import coin
from drafter.memory import MalformedMemory, MemoryRow, dequantise
from drafter.multicandidate import DraftSampling, grow_sampled
from drafter.search import Acceptance, Pace, Proposals, grow
from drafter.second_stage import SecondStage
from drafter.step import NEVER, DraftStep, Rows, Step
from drafter.tree import ROOT, DraftTree

ROUND = 4
"""Tokens without rows that a round leaves at most: the bonus, and some that the drafter did not run."""
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
    """The state that drafting one conversation needs. `memory_layers`: (heads, size) of each memory row.

    `second_stage`, of this conversation alone, makes drafting and generating faster.
    """

    def __init__(
        self,
        step: DraftStep,
        vocabulary: int,
        memory_layers: Sequence[tuple[int, int]],
        second_stage: SecondStage | None = None,
    ) -> None:
        self.tokens: list[int] = []
        """Committed tokens, and those generated offline."""
        self.second_stage = second_stage
        self.taken: tuple[int, float] | None = None
        """Drafter calls and seconds of the last draft; None where it ran more tokens than those of one round first."""
        self._step = step
        self._calls = 0
        self._vocabulary = vocabulary
        self._slabs = [step.slab(*shape) for shape in step.cache_shapes]
        self._inferred = self._slabs[len(self._slabs) - len(memory_layers) + 1 :]
        """Of the target's last layers, whose rows memory replaces."""
        self._cached = 0
        """Tokens from 0 on whose rows are in the slabs."""
        self._drafted = _NOTHING
        self._memory_layers = list(memory_layers)
        self._memory = step.slab(*memory_layers[0])
        self._known = np.zeros(0, bool)
        """Per token: its memory is here."""
        self._visible: Rows | None = None
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
        if self.second_stage is not None:
            self.second_stage.commit(tokens)
        self.tokens += tokens
        self._known = np.append(self._known, np.zeros(len(tokens), bool))

    def follow(self, tokens: Sequence[int]) -> int:
        """Have these tokens instead; how many of those before stay. Raises `ValueError` for an unknown id."""
        pairs = enumerate(zip(self.tokens, tokens))
        same = next((at for at, (old, new) in pairs if old != new), min(len(self.tokens), len(tokens)))
        if same < len(self.tokens):
            self.rewind(same)
        if same < len(tokens):
            self.commit(tokens[same:])
        return same

    def rewind(self, length: int) -> None:
        """Forget all tokens from position `length` on, and their memory."""
        if not 0 <= length <= len(self.tokens):
            raise ValueError(f"cannot rewind {len(self.tokens)} tokens to {length}")
        if self.second_stage is not None:
            self.second_stage.rewind(length)
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
        for slab, row in zip([self._memory, *self._inferred], memory):
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
        begun, waiting, before = time.perf_counter(), len(self.tokens) - self._cached, self._calls
        first = self._run_tokens()
        # A guess in a sampled tree would be there for its value, which exactness forbids.
        guess = [] if self.second_stage is None or sampling is not None else self.second_stage.guess(pace.deepest)
        length = len(self.tokens)
        most = max(0, pace.breadth * (pace.depth - 1)) + len(guess)
        tokens, parents = np.zeros(most, np.int64), np.zeros(most, np.int64)
        sees = np.zeros((most + 1, most), bool)  # The last row stands for the root: index -1 sees no node.
        sees[: len(guess), : len(guess)] = np.tri(len(guess))  # A guess is run at once, nodes with their parents.
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
            step = self._run(new, positions, mask, past)
            for slab, pair in zip(self._slabs, step.rows):
                slab.write(length + int(rows[0]), pair)
            return step.log_probs, step.ids

        if sampling is None:
            tree = grow(first, expand, pace, acceptance, guess)
        else:
            tree = grow_sampled(first, expand, pace, sampling, length, acceptance)
        if self.second_stage is not None:
            self.second_stage.keep(_Drafted(tree.tokens, tree.parents).follow(guess).size)
        self._drafted = _Drafted(tokens[:count], parents[:count])
        self.taken = (self._calls - before, time.perf_counter() - begun) if waiting <= ROUND else None
        return tree

    def generate(self, temperature: float, seed: int) -> Iterator[list[int]]:
        """The drafter alone, for as long as the caller asks: the tokens of each step, committed as they are yielded.

        Temperature 0 takes the likeliest token. Otherwise the token at a position is drawn from the step's top K with
        the coin of (`seed`, position), the one that the verifier tosses there. Without a second stage every step gives
        one token. With it a step also runs what it guesses, and gives the guessed tokens that are drawn and the next
        one: the text is the same, because the coin is and because rows that run together do not touch one another.
        """
        while True:
            guess = self._guess_tokens()
            log_probs, ids = self._run_tokens(guess)
            tokens: list[int] = []
            for row, guessed in enumerate([*guess, None]):
                tokens.append(_draw(log_probs[row], ids[row], temperature, seed, len(self.tokens) + row))
                if tokens[-1] != guessed:
                    break
            self.commit(tokens)
            yield tokens

    def _guess_tokens(self) -> list[int]:
        """What the second stage guesses, where the guess can be run together with the last token."""
        if self.second_stage is None or not self._step.independent_rows:
            return []
        # A row of the target's own replaces the guessed one only after the step that runs the token.
        return [] if self._known[-1:].any() and self._inferred else self.second_stage.guess()

    def _run_tokens(self, guess: Sequence[int] = ()) -> Proposals:
        """Run every token without rows, the last one in any case, and a guess at what follows it.

        What may follow the last token and each of the guess, (1 + G, K) each. The rows of the guess are kept as those
        of a draft are.
        """
        if not self.tokens:
            raise ValueError("nothing to continue: no token is committed")
        start = min(self._cached, len(self.tokens) - 1)
        alone = start == len(self.tokens) - 1
        begun = time.perf_counter()
        while True:
            end = self._chunk_end(start)
            last = end == len(self.tokens)
            new = np.array([*self.tokens[start:end], *(guess if last else ())], np.int64)
            rows = start + len(new)
            mask = np.triu(np.full((len(new), rows), NEVER), k=start + 1)
            past = [slab.rows(start) for slab in self._slabs]
            step = self._run(new, np.arange(start, rows), mask, past)
            unknown = np.append(np.flatnonzero(~self._known[start:end]), np.arange(end - start, len(new)))
            for slab, (keys, values) in zip(self._slabs, step.rows):
                if slab in self._inferred:
                    slab.write(start + unknown, (keys[:, unknown], values[:, unknown]))
                else:
                    slab.write(start, (keys, values))
            if last:
                break
            start = end
        self._cached = end
        self._drafted = _Drafted(np.array(guess, np.int64), np.arange(-1, len(guess) - 1))
        if alone and self.second_stage is not None:
            self.second_stage.experience.timed(1 + len(guess), time.perf_counter() - begun)
        return step.log_probs[-1 - len(guess) :], step.ids[-1 - len(guess) :]

    def _run(
        self, tokens: NDArray[np.int64], positions: NDArray[np.int64], mask: NDArray[np.float32], past: Sequence[Rows]
    ) -> Step:
        self._calls += 1
        return self._step(tokens, positions, mask, past, self._memory_rows())

    def _chunk_end(self, start: int) -> int:
        end = min(start + CHUNK, len(self.tokens))
        if self._inferred:
            # Within a step a token sees the guessed rows of those before it. Where the target's own are known, they
            # come from the slab: so such tokens run first, and the last token never with them.
            known = self._known[start:end] & (np.arange(start, end) < len(self.tokens) - 1)
            turns = np.flatnonzero(known[:-1] & ~known[1:])
            end = start + int(turns[0]) + 1 if turns.size else end
        return end

    def _memory_rows(self) -> Rows:
        if self._visible is None:
            self._visible = self._memory.rows(np.flatnonzero(self._known))
        return self._visible


def _draw(log_probs: NDArray[np.float32], ids: NDArray[np.int64], temperature: float, seed: int, position: int) -> int:
    """The token that stands at `position`, of the likeliest ones (K,), best first."""
    if temperature == 0:
        return int(ids[0])
    weights = np.exp((log_probs.astype(np.float64) - log_probs[0]) / temperature)
    order = np.argsort(ids)
    shares = np.cumsum(weights[order])
    drawn = np.searchsorted(shares, coin(seed, position) * shares[-1], side="right")
    return int(ids[order[min(drawn, len(order) - 1)]])
