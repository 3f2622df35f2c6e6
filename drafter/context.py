"""One conversation on the device: its tokens, the drafter's cache rows, and the target's memory of it.

Slot i of every slab belongs to token i; rows of drafted nodes lie after the last token until a commit keeps those of
the accepted path and forgets the others. So after a verdict the next draft has one new row to compute: the bonus
token's. Where the target's own last layers are inferred, their rows are the drafter's guess until memory replaces
them. Not thread-safe.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext

import numpy as np
from numpy.typing import NDArray

from drafter.ahead import NOTHING, Drafted, Flight, Halted, Outcome, Prepared, fresh_leaves, outcomes
from drafter.coin import coin
from drafter.memory import MalformedMemory, MemoryRow, dequantise
from drafter.multicandidate import LEAST_TEMPERATURE, DraftSampling, grow_sampled
from drafter.search import Acceptance, Pace, Proposals, grow
from drafter.second_stage import NO_CHAIN, SecondStage
from drafter.step import NEVER, DraftStep, Rows, Step
from drafter.tree import ROOT, DraftTree

ROUND = 4
"""Tokens without rows that a round leaves at most: the bonus, and some that the drafter did not run."""
CHUNK = 256
"""Tokens of a prompt run in one step: bounds the mask and the activations."""


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
        """Drafter calls and seconds of the last draft, without the one that read a prompt; None: it took no other."""
        self.read = 0
        """Tokens of a prompt that the last draft read first; 0: it went on from the round before."""
        self._step = step
        self._calls = 0
        self._vocabulary = vocabulary
        self._slabs = [step.slab(*shape) for shape in step.cache_shapes]
        self._inferred = self._slabs[len(self._slabs) - len(memory_layers) + 1 :]
        """Of the target's last layers, whose rows memory replaces."""
        self._cached = 0
        """Tokens from 0 on whose rows are in the slabs."""
        self._drafted = NOTHING
        self._flight: Flight | None = None
        """The last draft, while no commit has followed it."""
        self._prepared: dict[tuple[int, ...], Prepared] = {}
        """Drafts for what may be committed next."""
        self._ready: Prepared | None = None
        """The one for what was committed last."""
        self._halted: Callable[[], bool] | None = None
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
        ready = self._prepared.get(tuple(tokens))
        self._forget_ahead()
        if self.second_stage is not None:
            self.second_stage.commit(tokens)
        length = len(self.tokens)
        self._append(tokens)
        if ready is not None:
            for slab, rows in zip(self._slabs, ready.rows):
                slab.write(length, rows)
            self._cached, self._drafted, self._ready = len(self.tokens), ready.drafted, ready

    def _append(self, tokens: Sequence[int]) -> None:
        length = len(self.tokens)
        kept = self._drafted.follow(tokens)
        if kept.size:
            for slab in self._slabs:
                slab.write(length, slab.rows(length + kept))
            self._cached = length + kept.size
        self._drafted = NOTHING
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
        self._forget_ahead()
        del self.tokens[length:]
        self._cached = min(self._cached, length)
        self._drafted = NOTHING
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

    def nbytes(self, rows: int = 0) -> int:
        """Bytes allocated, or those that would be with so many tokens and drafted nodes."""
        # All known memory is held once more, contiguous, while drafts are made.
        return sum(slab.nbytes(rows) for slab in self._slabs) + 2 * self._memory.nbytes(rows)

    def read_chunk(self) -> bool:
        """Run one chunk of the tokens without rows, where there is more than one to run; whether it did.

        A long prompt can be read in pieces so, before the draft that would read all of it at once.
        """
        start = self._cached
        end = self._chunk_end(start)
        if end >= len(self.tokens):
            return False
        self._run_chunk(start, end)
        self._cached = end
        return True

    def draft(
        self, pace: Pace, sampling: DraftSampling | None = None, acceptance: Acceptance | None = None
    ) -> DraftTree:
        """Continuations of the last token: the likeliest ones, or with `sampling` drawn ones. Commits nothing.

        `acceptance` turns the drafter's log-probabilities into the chances that nodes are chosen by.
        """
        begun, waiting, before = time.perf_counter(), len(self.tokens) - self._cached, self._calls
        self._forget_ahead()
        first = self._run_tokens()
        if waiting > ROUND:
            begun, before = time.perf_counter(), self._calls
        # A guess in a sampled tree would be there for its value, which exactness forbids.
        guess = [] if self.second_stage is None or sampling is not None else self.second_stage.guess(pace.deepest)
        proposed = [first]

        def expand(new: NDArray[np.int64], above: NDArray[np.int64]) -> Proposals:
            proposed.append(self._run_nodes(new, above))
            return proposed[-1]

        if sampling is None:
            tree = grow(first, expand, pace, acceptance, guess)
            self._flight = Flight(tree, proposed)
        else:
            tree = grow_sampled(first, expand, pace, sampling, len(self.tokens), acceptance)
        if self.second_stage is not None:
            self.second_stage.keep(Drafted.of(tree).follow(guess).size)
        calls = self._calls - before
        self.taken = (calls, time.perf_counter() - begun) if calls else None
        self.read = waiting if waiting > ROUND else 0
        return tree

    # ---- drafting ahead ----------------------------------------------------------------------------------------------

    def outcomes(self, acceptance: Acceptance | None = None, final: Collection[int] = ()) -> list[Outcome]:
        """What a verdict on the last draft may add to the tokens, the likeliest first; none after a sampled draft.

        Runs, in one call, those of the draft's leaves that the drafter has not run. Nothing follows a `final` token.
        """
        flight = self._flight
        if flight is None:
            return []
        leaves = fresh_leaves(flight.tree, self._drafted, final)
        if leaves.size:
            rows = self._drafted.places(flight.tree)
            above = flight.tree.parents[leaves].astype(np.int64)
            flight.proposed.append(
                self._run_nodes(flight.tree.tokens[leaves].astype(np.int64), np.append(rows, ROOT)[above])
            )
        return outcomes(flight, self._drafted, acceptance, final)

    def prepare(
        self,
        outcome: Outcome,
        pace: Pace,
        acceptance: Acceptance | None = None,
        halted: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Draft as if `outcome` were committed, to have that draft at once if it will be; whether that was done.

        Changes nothing else. An outcome of another draft than the last one is ignored. `halted` is asked before each
        drafter call; once it holds, nothing is prepared.
        """
        if outcome.flight is not self._flight:
            return False
        self._halted = halted
        try:
            with self._supposing(outcome.tokens) as length:
                prepared = self._prepare(length, pace, acceptance)
        except Halted:
            return False
        finally:
            self._halted = None
        self._prepared[outcome.tokens] = prepared
        return True

    @property
    def ready(self) -> DraftTree | None:
        """A draft of what follows the last token, prepared before that was known; until `draft` makes another."""
        return None if self._ready is None else self._ready.flight.tree

    def adopt(self) -> DraftTree:
        """Have the draft that is ready, in place of a new one. Raises `ValueError` where none is."""
        ready, self._ready = self._ready, None
        if ready is None:
            raise ValueError("no draft was prepared for what was committed")
        self._flight, self.taken = ready.flight, ready.taken
        if self.second_stage is not None:
            self.second_stage.chain = ready.chain
        return ready.flight.tree

    def _prepare(self, length: int, pace: Pace, acceptance: Acceptance | None) -> Prepared:
        self.draft(pace, None, acceptance)
        assert self._flight is not None
        rows = np.arange(length, len(self.tokens) + len(self._drafted))
        return Prepared(
            flight=self._flight,
            drafted=self._drafted,
            rows=[slab.rows(rows) for slab in self._slabs],
            chain=NO_CHAIN if self.second_stage is None else self.second_stage.chain,
            taken=self.taken,
        )

    @contextmanager
    def _supposing(self, tokens: Sequence[int]) -> Iterator[int]:
        """As if `tokens` were committed; gives how many there are without them."""
        length = len(self.tokens)
        before = self._cached, self._known, self._drafted, self._flight, self._prepared, self.taken
        slots = np.arange(length, length + len(self._drafted))
        kept = [slab.rows(slots) for slab in self._slabs]
        try:
            self._append(tokens)
            with nullcontext() if self.second_stage is None else self.second_stage.supposing(tokens):
                yield length
        finally:
            del self.tokens[length:]
            for slab, rows in zip(self._slabs, kept):
                slab.write(length, rows)
            self._cached, self._known, self._drafted, self._flight, self._prepared, self.taken = before

    def _forget_ahead(self) -> None:
        self._flight, self._prepared, self._ready = None, {}, None

    # ---- the drafter alone -------------------------------------------------------------------------------------------

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
            step = self._run_chunk(start, end, guess if last else ())
            if last:
                break
            start = end
        self._cached = end
        self._drafted = NOTHING.grown(np.array(guess, np.int64), np.arange(-1, len(guess) - 1))
        if alone and self.second_stage is not None:
            self.second_stage.experience.timed(1 + len(guess), time.perf_counter() - begun)
        return step.log_probs[-1 - len(guess) :], step.ids[-1 - len(guess) :]

    def _run_chunk(self, start: int, end: int, guess: Sequence[int] = ()) -> Step:
        """Run the tokens `start .. end` and a guess at what follows them, and keep their rows."""
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

    def _run_nodes(self, tokens: NDArray[np.int64], parents: NDArray[np.int64]) -> Proposals:
        """Run nodes below those of the draft: of each its token, and in which order its parent was run, or `ROOT`."""
        length, drafted = len(self.tokens), self._drafted.grown(tokens, parents)
        first, count = length + len(self._drafted), len(tokens)
        mask = np.zeros((count, first + count), np.float32)
        mask[:, length:][~drafted.sees[-count:]] = NEVER
        positions = length - 1 + drafted.sees[-count:].sum(axis=1)
        step = self._run(tokens, positions, mask, [slab.rows(first) for slab in self._slabs])
        for slab, pair in zip(self._slabs, step.rows):
            slab.write(first, pair)
        self._drafted = drafted
        return step.log_probs, step.ids

    def _run(
        self, tokens: NDArray[np.int64], positions: NDArray[np.int64], mask: NDArray[np.float32], past: Sequence[Rows]
    ) -> Step:
        if self._halted is not None and self._halted():
            raise Halted
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
    weights = np.exp((log_probs.astype(np.float64) - log_probs[0]) / max(temperature, LEAST_TEMPERATURE))
    order = np.argsort(ids)
    shares = np.cumsum(weights[order])
    drawn = np.searchsorted(shares, coin(seed, position) * shares[-1], side="right")
    return int(ids[order[min(drawn, len(order) - 1)]])
