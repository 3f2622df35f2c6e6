"""The drafter's cache of one conversation: its tokens, their cache rows, and the target's memory of them.

Slot i of every slab belongs to token i. Rows of drafted nodes lie after the last token. A commit keeps the rows of the
accepted path and forgets the others, so the next draft computes one new row: the bonus token's. Where the drafter runs
the target's own last layers, their rows are a guess until memory replaces them. Not thread-safe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from drafter.ahead import NOTHING, DraftedNodes, Halted
from drafter.search import Proposals
from drafter.step import DraftStep, Rows, Step
from models.memory import MalformedMemory, MemoryRow, dequantise
from models.tree import NEVER

CHUNK = 256
"""Tokens of a prompt that run in one step. It bounds the size of the mask and the activations."""


class DraftCache:
    """Runs the drafter's steps for one conversation and keeps their rows.

    `memory_layers`: (heads, size) of each memory row. `first`: a token, and its memory if a conversation begins with
    it.
    """

    def __init__(
        self,
        step: DraftStep,
        memory_layers: Sequence[tuple[int, int]],
        first: tuple[int, Sequence[MemoryRow]] | None = None,
    ) -> None:
        self.tokens: list[int] = []
        self.drafted = NOTHING
        """Drafted nodes whose rows lie after those of the tokens."""
        self.calls = 0
        """Drafter calls so far."""
        self.rows = 0
        """Rows that have run after the first of each call, if their time counts: here they cost little."""
        self.halted: Callable[[], bool] | None = None
        """Checked before each drafter call; if it holds, the call raises `Halted` instead."""
        self._step = step
        self._slabs = [step.slab(*shape) for shape in step.cache_shapes]
        self._inferred = self._slabs[len(self._slabs) - len(memory_layers) + 1 :]
        """The slabs of the target's last layers. Memory replaces their rows."""
        self._cached = 0
        """How many tokens, from the first one on, have rows in the slabs."""
        self._early: int | None = None
        """Position of the first token that was read ahead of its memory, or None."""
        self._early_memory = 0
        """The value of `_memory_changes` when that token was read."""
        self._memory_changes = 0
        """How often the known memory has changed."""
        self._memory_layers = list(memory_layers)
        self._first = first
        self._memory = step.slab(*memory_layers[0])
        self._known = np.zeros(0, bool)
        """For each token, whether its memory is here."""
        self._visible: Rows | None = None
        """All known memory, contiguous. None after a change."""

    @property
    def independent_rows(self) -> bool:
        """Whether a token's result is the same, bit for bit, whatever tokens run with it."""
        return self._step.independent_rows

    @property
    def waiting(self) -> int:
        """Tokens at the end that have no rows yet."""
        return len(self.tokens) - self._cached

    @property
    def memory_length(self) -> int:
        """How many tokens, from the first one on without a gap, have memory here."""
        return int(np.argmin(np.append(self._known, False)))

    @property
    def ends_with_target_rows(self) -> bool:
        """Whether the target's own rows of the last token are known.

        They replace the guess only after the token has run.
        """
        return bool(self._known[-1:].any() and self._inferred)

    def nbytes(self, rows: int = 0) -> int:
        """Bytes that are allocated, or would be with this many tokens and drafted nodes."""
        # While drafts are made, all known memory is held a second time, contiguous.
        return sum(slab.nbytes(rows) for slab in self._slabs) + 2 * self._memory.nbytes(rows)

    # ---- tokens and memory -------------------------------------------------------------------------------------------

    def append(self, tokens: Sequence[int]) -> None:
        """Add tokens. Where they follow drafted nodes, the rows of these nodes are kept."""
        length = len(self.tokens)
        kept = self.drafted.follow(tokens)
        if kept.size:
            for slab in self._slabs:
                slab.write(length, slab.rows(length + kept))
            self._cached = length + kept.size
        self.drafted = NOTHING
        self.tokens += tokens
        self._known = np.append(self._known, np.zeros(len(tokens), bool))
        if self._first is not None and not length and self.tokens[:1] == [self._first[0]]:
            self.remember(0, self._first[1])

    def truncate(self, length: int) -> None:
        """Forget all tokens from position `length` on, and their memory."""
        del self.tokens[length:]
        self._cached = min(self._cached, length)
        self._early = None if self._early is None or self._early >= length else self._early
        self.drafted = NOTHING
        self._known = self._known[:length]
        self._memory_changed()

    def remember(
        self, start: int, rows: Sequence[MemoryRow | tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]
    ) -> None:
        """Store memory of the tokens from `start` on. Pieces may arrive in any order, and twice.

        Raises `MalformedMemory` for rows of another format, and for tokens that are not committed here.
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
        self._memory_changed()

    # ---- running the drafter -----------------------------------------------------------------------------------------

    def read_chunk(self) -> bool:
        """Run one chunk of the tokens without rows and return True, if there is more than one chunk to run.

        This lets a long prompt be read piece by piece before the draft that would read all of it at once.
        """
        start = self._cached
        end = self._chunk_end(start)
        if end >= len(self.tokens):
            return False
        self._run_chunk(start, end)
        self._cached = end
        return True

    def read_ahead(self, most: int, *, known: bool) -> bool:
        """Run at most `most` of the tokens without rows, but not the last one; return True if it ran any.

        `known`: only tokens whose memory is here. Later drafts are the same as without reading ahead: only the rows of
        the last layers depend on memory. Memory replaces them, and a row that was guessed before other memory arrived
        is recomputed when the next draft begins.
        """
        start = self._cached
        end = min(self._chunk_end(start), start + most, len(self.tokens) - 1)
        if known:
            end = min(end, start + int(np.argmin(np.append(self._known[start:], False))))
        if end <= start:
            return False
        if self._inferred and self._early is None and not self._known[start:end].all():
            self._early, self._early_memory = start, self._memory_changes
        self._run_chunk(start, end)
        self._cached = end
        return True

    def run_tokens(self, guess: Sequence[int] = ()) -> Proposals:
        """Run every token without rows, always the last one, and `guess`, which may follow it.

        Returns what may follow the last token and each token of the guess, (1 + G, K) each. The rows of the guess are
        kept like those of a draft. Raises `ValueError` if no token is committed.
        """
        if not self.tokens:
            raise ValueError("nothing to continue: no token is committed")
        self._forget_early_guesses()
        start = min(self._cached, len(self.tokens) - 1)
        while True:
            end = self._chunk_end(start)
            last = end == len(self.tokens)
            step = self._run_chunk(start, end, guess if last else ())
            self._cached = end
            if last:
                break
            start = end
        self.drafted = NOTHING.grown(np.array(guess, np.int64), np.arange(-1, len(guess) - 1))
        return step.log_probs[-1 - len(guess) :], step.ids[-1 - len(guess) :]

    def run_nodes(self, tokens: NDArray[np.int64], parents: NDArray[np.int64]) -> Proposals:
        """Run nodes below the drafted ones and keep their rows.

        `parents`: for each node, the place of its parent in the order of the runs, or `ROOT`.
        """
        length, drafted = len(self.tokens), self.drafted.grown(tokens, parents)
        first, count = length + len(self.drafted), len(tokens)
        mask = np.zeros((count, first + count), np.float32)
        mask[:, length:][~drafted.sees[-count:]] = NEVER
        positions = length - 1 + drafted.sees[-count:].sum(axis=1)
        step = self._run(tokens, positions, mask, [slab.rows(first) for slab in self._slabs])
        for slab, pair in zip(self._slabs, step.rows):
            slab.write(first, pair)
        self.drafted = drafted
        return step.log_probs, step.ids

    # ---- drafting ahead ----------------------------------------------------------------------------------------------

    @contextmanager
    def supposing(self, tokens: Sequence[int]) -> Iterator[int]:
        """Act inside the block as if `tokens` were committed; yields the number of tokens without them.

        Afterwards everything is as it was before.
        """
        length = len(self.tokens)
        before = self._cached, self._known, self.drafted
        slots = np.arange(length, length + len(self.drafted))
        kept = [slab.rows(slots) for slab in self._slabs]
        try:
            self.append(tokens)
            yield length
        finally:
            del self.tokens[length:]
            for slab, rows in zip(self._slabs, kept):
                slab.write(length, rows)
            self._cached, self._known, self.drafted = before

    def rows_from(self, start: int) -> list[Rows]:
        """Copies of each layer's rows from slot `start` on, those of drafted nodes included."""
        slots = np.arange(start, len(self.tokens) + len(self.drafted))
        return [slab.rows(slots) for slab in self._slabs]

    def put_rows(self, start: int, rows: Sequence[Rows], drafted: DraftedNodes) -> None:
        """Restore what `rows_from` copied: all tokens now have their rows, followed by those of `drafted`."""
        for slab, pair in zip(self._slabs, rows):
            slab.write(start, pair)
        self._cached, self.drafted = len(self.tokens), drafted

    # ---- steps -------------------------------------------------------------------------------------------------------

    def _run_chunk(self, start: int, end: int, guess: Sequence[int] = ()) -> Step:
        """Run the tokens `start .. end`, then the guess, and keep their rows."""
        new = np.array([*self.tokens[start:end], *guess], np.int64)
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
        return step

    def _run(
        self, tokens: NDArray[np.int64], positions: NDArray[np.int64], mask: NDArray[np.float32], past: Sequence[Rows]
    ) -> Step:
        if self.halted is not None and self.halted():
            raise Halted
        self.calls += 1
        return self._step(tokens, positions, mask, past, self._memory_rows())

    def _forget_early_guesses(self) -> None:
        """Forget rows that were guessed with less memory than there is now and that memory has not replaced."""
        early, self._early = self._early, None
        if early is not None and self._early_memory != self._memory_changes:
            unknown = np.flatnonzero(~self._known[early : self._cached])
            self._cached = early + int(unknown[0]) if unknown.size else self._cached

    def _memory_changed(self) -> None:
        self._visible, self._memory_changes = None, self._memory_changes + 1

    def _chunk_end(self, start: int) -> int:
        end = min(start + CHUNK, len(self.tokens))
        if self._inferred:
            # Within a step, a token sees the guessed rows of the tokens before it. Where the target's own rows are
            # known, they come from the slab. So tokens with known rows run first, and never with the last token.
            known = self._known[start:end] & (np.arange(start, end) < len(self.tokens) - 1)
            turns = np.flatnonzero(known[:-1] & ~known[1:])
            end = start + int(turns[0]) + 1 if turns.size else end
        return end

    def _memory_rows(self) -> Rows:
        if self._visible is None:
            self._visible = self._memory.rows(np.flatnonzero(self._known))
        return self._visible
