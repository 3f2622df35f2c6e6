"""One conversation on the device: what is committed, and the drafts of what comes next.

Not thread-safe.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from os.path import commonprefix

import numpy as np
from numpy.typing import NDArray

from drafter.ahead import DraftedNodes, Flight, Halted, Outcome, Prepared, fresh_leaves, outcomes
from drafter.cache import DraftCache
from drafter.coin import LEAST_TEMPERATURE, Coins, race
from drafter.multicandidate import DraftSampling, grow_sampled
from drafter.search import Acceptance, Pace, Proposals, grow
from drafter.second_stage import NO_CHAIN, SecondStage
from drafter.whole_model import ModelAway, ModelCache
from models.memory import MemoryRow
from models.tree import ROOT, DraftTree

ROUND = 4
"""Most tokens without rows that a round leaves: the bonus token, and some that the drafter did not run."""


class DraftContext:
    """Drafts the continuation of one conversation, and keeps the state that this needs.

    `second_stage`: makes drafting and generating faster. It and the empty `cache` belong to this conversation alone.
    """

    def __init__(
        self, cache: DraftCache | ModelCache, vocabulary: int, second_stage: SecondStage | None = None
    ) -> None:
        self.second_stage = second_stage
        self.taken: tuple[int, float] | None = None
        """Drafter calls and seconds of the last draft, if any. A call that read a prompt does not count."""
        self.rows = 0
        """Nodes that ran in these calls after the first of each, if their time counts."""
        self.read = 0
        """Tokens of a prompt that the last draft read first, or 0 if it continued from the round before."""
        self._coins: Coins | None = None
        """The target's coins, as known to the last draft."""
        self._cache = cache
        self._vocabulary = vocabulary
        self._flight: Flight | None = None
        """The last draft, until something is committed."""
        self._prepared: dict[tuple[int, ...], Prepared] = {}
        """Drafts that were made ahead, by the tokens that may be committed next."""
        self._ready: Prepared | None = None
        """The prepared draft that follows what was committed last."""

    # ---- the conversation --------------------------------------------------------------------------------------------

    @property
    def tokens(self) -> list[int]:
        """Committed tokens, and those that were generated offline."""
        return self._cache.tokens

    def commit(self, tokens: Sequence[int]) -> None:
        """Append tokens, and keep the rows of drafted nodes along them.

        Raises `ValueError` for an id outside the vocabulary.
        """
        wrong = [token for token in tokens if not 0 <= token < self._vocabulary]
        if wrong:
            raise ValueError(f"token {wrong[0]} is not in the drafter's vocabulary of {self._vocabulary}")
        ready = self._prepared.get(tuple(tokens))
        self._forget_ahead()
        if self.second_stage is not None:
            self.second_stage.commit(tokens)
        length = len(self.tokens)
        self._cache.append(tokens)
        if ready is not None:
            self._cache.put_rows(length, ready.rows, ready.drafted)
            self._ready = ready

    def follow(self, tokens: Sequence[int]) -> int:
        """Replace the conversation's tokens, and return how many of the old ones stay.

        Raises `ValueError` for an id outside the vocabulary.
        """
        same = len(commonprefix((self.tokens, list(tokens))))
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
        self._cache.truncate(length)

    def remember(
        self, start: int, rows: Sequence[MemoryRow | tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]
    ) -> None:
        """Take memory of the tokens from `start` on; see `DraftCache.remember`. Raises `MalformedMemory`."""
        self._cache.remember(start, rows)

    @property
    def memory_length(self) -> int:
        """How many tokens, from the first one on without a gap, have memory here."""
        return self._cache.memory_length

    def nbytes(self, rows: int = 0) -> int:
        """Bytes that are allocated, or would be with this many tokens and drafted nodes."""
        return self._cache.nbytes(rows)

    def read_chunk(self) -> bool:
        """Read one chunk of a long prompt and return True, if there is more than one chunk to read."""
        return self._cache.read_chunk()

    def read_ahead(self, most: int, *, known: bool) -> bool:
        """Read some tokens before a draft needs them; see `DraftCache.read_ahead`."""
        return self._cache.read_ahead(most, known=known)

    @property
    def waiting(self) -> int:
        """Tokens at the end that were not read yet."""
        return self._cache.waiting

    # ---- drafting ----------------------------------------------------------------------------------------------------

    def draft(
        self,
        pace: Pace,
        sampling: DraftSampling | None = None,
        acceptance: Acceptance | None = None,
        coins: Coins | None = None,
        halted: Callable[[], bool] | None = None,
    ) -> DraftTree:
        """A tree of continuations of the last token. Commits nothing.

        Without `sampling` the tree holds the likeliest continuations; with it, sampled ones. `acceptance` turns the
        drafter's log-probabilities into the chances by which nodes are chosen. `coins`: those with which the target
        draws, or None if it takes its best token. A sampled tree must not use them. `halted` is checked before each
        drafter call; once it holds, `Halted` is raised.
        """
        self._cache.halted = halted
        try:
            return self._draft(pace, sampling, acceptance, coins)
        except Halted:
            if self.second_stage is not None:
                self.second_stage.keep(0)
            raise
        finally:
            self._cache.halted = None

    def _draft(
        self, pace: Pace, sampling: DraftSampling | None, acceptance: Acceptance | None, coins: Coins | None
    ) -> DraftTree:
        begun, waiting, before, rows = time.perf_counter(), self._cache.waiting, self._cache.calls, self._cache.rows
        self._forget_ahead()
        first = self._run_tokens()
        if waiting > ROUND:
            begun, before, rows = time.perf_counter(), self._cache.calls, self._cache.rows
        # A guess would be in a sampled tree because of its value, which would break exactness.
        guess = [] if self.second_stage is None or sampling is not None else self.second_stage.guess(pace.deepest)
        self._coins = coins if sampling is None else None
        length, depths = len(self.tokens), np.zeros(1, np.int64)  # The last entry stands for the root.
        first = self._ranked(first, np.array([length]))
        proposed = [first]

        def expand(new: NDArray[np.int64], above: NDArray[np.int64]) -> Proposals:
            nonlocal depths
            below = _depths(depths, above)
            depths = np.concatenate((depths[:-1], below, depths[-1:]))
            proposed.append(self._ranked(self._cache.run_nodes(new, above), length + below))
            return proposed[-1]

        if sampling is None:
            tree = grow(first, expand, pace, acceptance, guess)
            self._flight = Flight(tree, proposed)
        else:
            tree = grow_sampled(first, expand, pace, sampling, len(self.tokens), acceptance)
        if self.second_stage is not None:
            self.second_stage.keep(DraftedNodes.of(tree).follow(guess).size)
        calls = self._cache.calls - before
        self.taken = (calls, time.perf_counter() - begun) if calls else None
        self.rows = self._cache.rows - rows
        self.read = waiting if waiting > ROUND else 0
        return tree

    def likeliest_after(self, tokens: Sequence[int]) -> list[int]:
        """The likeliest next token, and the likeliest one after each of `tokens`, as if drafted. Commits nothing."""
        self._forget_ahead()
        return [int(token) for token in self._cache.run_tokens(tokens)[1][:, 0]]

    # ---- drafting ahead ----------------------------------------------------------------------------------------------

    def outcomes(self, acceptance: Acceptance | None = None, final: Collection[int] = ()) -> list[Outcome]:
        """The possible outcomes of a verdict on the last draft, the likeliest first. Empty after a sampled draft.

        Leaves of the draft that the drafter has not run are run here, in one call. Nothing follows a `final` token.
        """
        flight = self._flight
        if flight is None:
            return []
        leaves = fresh_leaves(flight.tree, self._cache.drafted, final)
        if leaves.size:
            rows = self._cache.drafted.places(flight.tree)
            above = flight.tree.parents[leaves].astype(np.int64)
            run = self._cache.run_nodes(flight.tree.tokens[leaves].astype(np.int64), np.append(rows, ROOT)[above])
            flight.proposed.append(self._ranked(run, len(self.tokens) + flight.tree.depths()[leaves]))
        return outcomes(flight, self._cache.drafted, acceptance, final)

    def prepare(
        self,
        outcome: Outcome,
        pace: Pace,
        acceptance: Acceptance | None = None,
        halted: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Draft as if `outcome` were committed, so that this draft is ready if it is; return True if it was prepared.

        Nothing else changes. An outcome of any draft but the last is ignored. `halted` is checked before each drafter
        call; once it holds, nothing is prepared.
        """
        if outcome.flight is not self._flight:
            return False
        self._cache.halted = halted
        try:
            with self._supposing(outcome.tokens) as length:
                prepared = self._prepare(length, pace, acceptance)
        except ModelAway:
            self._forget_ahead()  # The model has lost what earlier drafts were made of.
            return False
        except Halted:
            return False
        finally:
            self._cache.halted = None
        self._prepared[outcome.tokens] = prepared
        return True

    @property
    def ready(self) -> DraftTree | None:
        """The draft prepared for what follows the last token, before that token was known, or None.

        Calling `draft` discards it.
        """
        return None if self._ready is None else self._ready.flight.tree

    def adopt(self) -> DraftTree:
        """Use the prepared draft instead of a new one. Raises `ValueError` if none is ready."""
        ready, self._ready = self._ready, None
        if ready is None:
            raise ValueError("no draft was prepared for what was committed")
        self._flight, self.taken = ready.flight, ready.taken
        if self.second_stage is not None:
            self.second_stage.chain = ready.chain
        return ready.flight.tree

    def _prepare(self, length: int, pace: Pace, acceptance: Acceptance | None) -> Prepared:
        self._draft(pace, None, acceptance, self._coins)
        assert self._flight is not None
        return Prepared(
            flight=self._flight,
            drafted=self._cache.drafted,
            rows=self._cache.rows_from(length),
            chain=NO_CHAIN if self.second_stage is None else self.second_stage.chain,
            taken=self.taken,
        )

    @contextmanager
    def _supposing(self, tokens: Sequence[int]) -> Iterator[int]:
        """Act inside the block as if `tokens` were committed; yields the number of tokens without them."""
        before = self._flight, self._prepared, self.taken
        try:
            with (
                self._cache.supposing(tokens) as length,
                nullcontext() if self.second_stage is None else self.second_stage.supposing(tokens),
            ):
                yield length
        finally:
            self._flight, self._prepared, self.taken = before

    def _ranked(self, proposals: Proposals, positions: NDArray[np.integer]) -> Proposals:
        """Proposals for the tokens at `positions` (M,), ranked by how likely the target is to choose them."""
        return proposals if self._coins is None else self._coins.ranked(proposals, positions)

    def _forget_ahead(self) -> None:
        self._flight, self._prepared, self._ready = None, {}, None

    # ---- the drafter alone -------------------------------------------------------------------------------------------

    def generate(self, temperature: float, seed: int) -> Iterator[list[int]]:
        """Generate text by the drafter alone, endlessly: yield the tokens of each step, which are committed as well.

        Temperature 0 takes the likeliest token. Otherwise the token at a position is drawn from the step's top K with
        the coin of (`seed`, position), which is the verifier's coin there too. Without a second stage each step gives
        one token. With it, a step also runs a guess, and gives the guessed tokens that are drawn and one more. The text
        is the same, because the coin is the same and rows that run together do not affect one another.
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
        """The second stage's guess, if it can run together with the last token."""
        if self.second_stage is None or not self._cache.independent_rows or self._cache.ends_with_target_rows:
            return []
        return self.second_stage.guess()

    def _run_tokens(self, guess: Sequence[int] = ()) -> Proposals:
        """Run the tokens without rows and a guess; the second stage records how long a step with the guess takes."""
        alone, begun = self._cache.waiting <= 1, time.perf_counter()
        proposals = self._cache.run_tokens(guess)
        if alone and self.second_stage is not None:
            self.second_stage.experience.timed(1 + len(guess), time.perf_counter() - begun)
        return proposals


def _depths(depths: NDArray[np.int64], above: NDArray[np.int64]) -> NDArray[np.int64]:
    """The depths of new nodes (M,), with parents at `above` or in the same run.

    `depths`: of all nodes that ran before, then that of the root, where -1 finds it.
    """
    known, found = len(depths) - 1, list[int]()
    for parent in above.tolist():
        found.append(1 + (found[parent - known] if parent >= known else int(depths[parent])))
    return np.array(found, np.int64)


def _draw(log_probs: NDArray[np.float32], ids: NDArray[np.int64], temperature: float, seed: int, position: int) -> int:
    """The token at `position`, drawn from the likeliest ones (K,), best first."""
    if temperature == 0:
        return int(ids[0])
    weights = np.exp((log_probs.astype(np.float64) - log_probs[0]) / max(temperature, LEAST_TEMPERATURE))
    return race(ids, weights, seed, position)
