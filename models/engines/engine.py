"""The interface of an engine: draft trees in, logits out, as numpy arrays. Token ids only; no text, sessions or HTTP.

A `TargetContext` holds the committed tokens of one conversation and their keys and values. A round has three calls.
`TargetContext.assign` sets the committed tokens. `Engine.forward` runs what several contexts ask for, pending tokens
and tree nodes, under a tree mask. `TargetContext.commit` keeps the accepted rows. If a forward fails half-way, nothing
is lost: rows beyond `computed` never count, and the next forward overwrites them.

The requirements for every engine are tested in tests/models/engines. Engines are not thread-safe: only one thread at a
time may call an engine and its contexts.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from os.path import commonprefix
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from models.config import DrafterConfig
from models.engines.threads import Threads
from models.free_memory import free_bytes
from models.tree import DraftTree

Floats = NDArray[np.float32]


class EngineError(Exception):
    """The target cannot do what was asked. The message says why."""


class UnverifiableTarget(EngineError):
    """The model's attention cannot take a draft tree."""


class UnfitDrafter(EngineError):
    """The memory encoder was made for a target of another shape."""


class UnknownToken(EngineError):
    """A token id is outside the target's vocabulary."""


class BrokenTarget(EngineError):
    """The target returned NaN, or no chance for any token."""


class Encoder(Protocol):
    """Makes a drafter's memory from the target's keys and values."""

    config: DrafterConfig


class TargetContext(ABC):
    """The committed tokens of one conversation, and the keys and values of the first `computed` of them."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.computed = 0
        self.rewinds = 0
        """How often computed rows were discarded. Readers compare it to know whether earlier rows still exist."""

    @property
    @abstractmethod
    def capacity(self) -> int:
        """Rows that are allocated, used or not."""

    def assign(self, base: int, tokens: Sequence[int]) -> None:
        """Set the committed tokens to the first `base` ones, then `tokens`. The rows of unchanged tokens are kept."""
        agreed = base + len(commonprefix((self.tokens[base:], list(tokens))))
        if agreed < self.computed:
            self.rewinds += 1
        self.tokens[base:] = tokens
        # The last token is the root. Its logits are wanted, so it is computed again.
        self.computed = max(0, min(self.computed, agreed, len(self.tokens) - 1))

    def commit(self, tree: DraftTree, accepted: Sequence[int], bonus: int | None) -> list[int]:
        """Keep the accepted nodes' rows of the last forward, append their tokens and the bonus, and return these."""
        new = [int(tree.tokens[node]) for node in accepted] + ([] if bonus is None else [bonus])
        self._keep(self.computed, [self.computed + node for node in accepted])
        self.computed += len(accepted)
        self.tokens += new
        return new

    def adopt(self, other: TargetContext, count: int) -> None:
        """Take the rows of the first `count` tokens from a context of the same engine that begins with them too.

        They are not computed again, if there is room for them. Requires that nothing is computed yet.
        """
        count = min(count, other.computed, len(self.tokens) - 1)
        if self.computed == 0 < count and self._copy(other, count):
            self.computed = count

    def release(self) -> None:
        """Forget everything and free the rows."""
        self.rewinds += 1
        self.tokens, self.computed = [], 0
        self._free()

    @abstractmethod
    def _keep(self, start: int, rows: Sequence[int]) -> None:
        """Move `rows`, indices at or after `start`, to `start`. The rows after them no longer count."""

    @abstractmethod
    def _copy(self, other: TargetContext, count: int) -> bool:
        """Copy the first `count` rows of another context. False if there is no room."""

    @abstractmethod
    def _free(self) -> None:
        """Free all rows."""


@dataclass(frozen=True, eq=False)
class Forward:
    """One context's request for a forward: its next `pending` committed tokens, then the nodes of a tree.

    Without a tree no logits are wanted. `since`: the first node to compute, in a tree that has grown: the nodes before
    it are those of the context's last forwards, and nothing is pending.
    """

    context: TargetContext
    pending: int
    tree: DraftTree | None
    since: int = 0

    @property
    def nodes(self) -> int:
        return 0 if self.tree is None else len(self.tree) - self.since

    @property
    def rows(self) -> int:
        return self.pending + self.nodes

    @property
    def wanted(self) -> int:
        """The rows whose logits are wanted: the last of the pending ones, if there are any, and the nodes."""
        return 0 if self.tree is None else self.nodes + (self.pending > 0)

    @property
    def start(self) -> int:
        """The rows in the cache before these."""
        return self.context.computed + self.since

    @property
    def tokens(self) -> list[int]:
        start = self.context.computed
        committed = self.context.tokens[start : start + self.pending]
        return committed if self.tree is None else [*committed, *self.tree.tokens[self.since :].tolist()]

    @property
    def positions(self) -> NDArray[np.int64]:
        committed = np.arange(self.context.computed, self.context.computed + self.pending)
        return np.append(committed, self._depths[self.since :]) if self.nodes else committed

    @property
    def before(self) -> NDArray[np.int64]:
        """The position of each row in the cache, (start,)."""
        committed = np.arange(self.context.computed)
        return np.append(committed, self._depths[: self.since]) if self.since else committed

    @property
    def _depths(self) -> NDArray[np.int64]:
        """The position of each node, new or not."""
        assert self.tree is not None
        return self.context.computed + self.pending - 1 + self.tree.depths().astype(np.int64)

    def visible(self, first: int = 0) -> NDArray[np.bool_]:
        """(rows, start + rows - first): which of the rows from `first` on each one sees.

        It sees all rows before `context.computed`, so `first` is at most that.
        """
        mask = np.tri(self.rows, self.start + self.rows - first, self.start - first, dtype=bool)
        if self.nodes:
            assert self.tree is not None
            mask[self.pending :, self.context.computed + self.pending - first :] = self.tree.ancestors()[self.since :]
        return mask


class Engine(ABC):
    """A causal language model that verifies draft trees, with its drafter's memory encoder if any.

    Subclasses set `vocabulary`, `chunk`, `row_budget` and `bytes_per_token`, and `key_shape` if they take an encoder.
    """

    vocabulary: int
    chunk: int
    """Most pending tokens of one context in a forward. It bounds the activations, and how long others wait."""
    row_budget: int
    """Rows of a forward from which on each further row costs its full price, so that larger batches gain nothing."""
    bytes_per_token: int
    """Bytes of one token's keys and values."""
    most_bytes: int | None = None
    """Most bytes that may be allocated ahead for the rows of all contexts, or None for any number."""
    most_nodes: int | None = None
    """Most nodes of a tree, or None for any number."""
    encoder: Encoder | None = None
    key_shape: tuple[int, int, int] = (0, 0, 0)
    """Layers, and heads and size of a layer's keys. No encoder fits zeros."""
    why_no_drafter: str | None = None
    """Why no drafter is used for this model, or None if one may be."""
    threads: Threads | None = None
    """Chooses the number of threads, or None if it is fixed."""
    _computes_with = 0
    """Threads of the last forward."""

    @property
    def takes_drafts(self) -> bool:
        """Whether a draft may save time. A model that reads nodes one by one takes at most one, without a gain."""
        return self.most_nodes != 1

    @property
    @abstractmethod
    def description(self) -> str:
        """Runtime, size, kind of numbers and device, for people."""

    @abstractmethod
    def context(self) -> TargetContext:
        """An empty context."""

    @abstractmethod
    def memory(self, context: TargetContext, start: int, end: int) -> bytes:
        """The packed memory of the computed tokens `start .. end`. Only with an encoder."""

    def remember_with(self, encoder: Encoder) -> None:
        """Make memory with this encoder. Raises `UnfitDrafter` if it was made for keys of another shape."""
        made = encoder.config
        if (wanted := (made.target_layers, made.target_kv_heads, made.target_head_size)) != self.key_shape:
            raise UnfitDrafter(
                f"The drafter was made for {made.target}, {wanted[0]} layers of {wanted[1]} x {wanted[2]} keys; this "
                "target has {} of {} x {}. Serve its own target, or leave the drafter out.".format(*self.key_shape)
            )
        self.encoder = encoder

    def free_bytes(self) -> int:
        """Free bytes on the device that holds the rows of contexts."""
        return free_bytes()

    @abstractmethod
    def _run(self, requests: Sequence[Forward]) -> list[Floats]:
        """Compute all rows. The logits of the wanted ones of each request, (wanted, V)."""

    def check(self, tokens: Sequence[int] | NDArray[np.integer]) -> None:
        """Raise `UnknownToken` for an id outside the vocabulary."""
        if len(tokens) and not 0 <= (worst := int(max(tokens))) < self.vocabulary:
            raise UnknownToken(f"token {worst} is outside the target's vocabulary of {self.vocabulary}")

    def next_chunk(self, context: TargetContext) -> Forward | None:
        """The next chunk of committed tokens, if more than one is to be computed."""
        if len(context.tokens) - context.computed <= self.chunk:
            return None
        return Forward(context, self.chunk, None)

    def forward(self, requests: Sequence[Forward]) -> list[Floats | EngineError]:
        """Run the requests of different contexts together.

        Returns the logits of each, (wanted, V) float32, or its error.
        """
        answers = [self._unknown(request) for request in requests]
        sound = [request for request, error in zip(requests, answers) if error is None]
        results = iter(self._timed(sound) if sound else ())
        return [
            self._judged(request, next(results)) if error is None else error
            for request, error in zip(requests, answers)
        ]

    def read(self, context: TargetContext) -> bool:
        """Compute one chunk of the committed tokens and return True, if there is more than one chunk to compute.

        Raises `UnknownToken`.
        """
        chunk = self.next_chunk(context)
        if chunk is None:
            return False
        self._alone(chunk)
        return True

    def verify(self, context: TargetContext, tree: DraftTree) -> Floats:
        """The logits after the root and after each node, (1 + n, V), of one context alone.

        It also computes all committed tokens that are not computed yet, at least one. Raises `UnknownToken`,
        `BrokenTarget`.
        """
        while self.read(context):
            pass
        return self._alone(Forward(context, len(context.tokens) - context.computed, tree))

    def _timed(self, requests: Sequence[Forward]) -> list[Floats]:
        """Compute all rows, with the fastest number of threads."""
        if self.threads is None:
            return self._run(requests)
        if self._computes_with != self.threads.count:
            self._computes_with = self.threads.count
            self._use_threads(self._computes_with)
        begun = time.perf_counter()
        logits = self._run(requests)
        self.threads.ran(sum(request.rows for request in requests), time.perf_counter() - begun)
        return logits

    def measure_threads(self) -> None:
        """Run single rows until the fastest number of threads is known."""
        context = self.context()
        while self.threads is not None and self.threads.trying:
            context.assign(0, [7 % self.vocabulary])
            self.verify(context, DraftTree.empty())
        context.release()

    def _use_threads(self, count: int) -> None:
        """Set the number of threads that compute. Requires `threads`."""
        raise NotImplementedError

    def _alone(self, request: Forward) -> Floats:
        (answer,) = self.forward([request])
        if isinstance(answer, EngineError):
            raise answer
        return answer

    def _unknown(self, request: Forward) -> EngineError | None:
        try:
            self.check(request.tokens)
        except UnknownToken as error:
            return error
        return None

    def _judged(self, request: Forward, logits: Floats) -> Floats | EngineError:
        request.context.computed += request.pending
        # A comparison with NaN is false, and the maximum of a row with NaN is NaN.
        if len(logits) and not (logits.max(-1) > -np.inf).all():
            what = "NaN" if np.isnan(logits).any() else "no chance for any token"
            return BrokenTarget(
                f"The target returned {what}: its weights are damaged, or its number format is too narrow."
            )
        return logits


STATE_TOKENS = 256
"""The bytes of a state are counted as those of this many tokens, because sessions are measured in tokens."""


def slab_rows(length: int) -> int:
    """Capacity of a slab that grew to `length`: half as many rows more, so that it is rarely copied."""
    return max(64, length + length // 2)


def tree_difference(engine: Engine) -> float:
    """How far the logits of a small tree are from those of its paths, token by token, as a share of the largest.

    Raises what `Engine.verify` raises.
    """
    parts = ([7, 3, 5], [2, 9, 6], [4, 1])
    prompt, left, right = ([token % engine.vocabulary for token in part] for part in parts)
    tree = DraftTree(np.array([left[0], right[0], left[1], right[1], left[2]]), np.array([-1, -1, 0, 1, 2]))
    context = engine.context()
    context.assign(0, prompt)
    whole = engine.verify(context, tree)
    context.release()
    differences = []
    for tokens, node in ((left, 4), (right, 3)):
        context.assign(0, prompt)
        for token in tokens:
            engine.verify(context, DraftTree.empty())
            context.commit(DraftTree.empty(), [], token)
        (found,) = engine.verify(context, DraftTree.empty())
        differences.append(float(np.abs(found - whole[node + 1]).max()))
        context.release()
    return max(differences) / float(np.abs(whole).max())
