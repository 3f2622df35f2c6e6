"""One step of the drafter: the quantised graph on ONNX Runtime's CPU kernels, and the slabs that hold its cache rows.

A step takes M tokens and the rows that they may see. It returns the likeliest next tokens of each, and the tokens' new
cache rows; old rows are never copied out. `DraftStep` is what every runtime offers. The other runtime is
`drafter/model/torch_step.py`. No trees, no conversations, no text.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from models.config import DrafterConfig, DrafterCorrupt
from models.cores import draft_threads
from models.graph_file import loadable
from models.tree import NEVER

Floats = NDArray[np.float32]

KeysValues = tuple[Floats, Floats]
"""Keys, already rotated, and values: (heads, rows, size) each."""

Rows = tuple[Any, Any]
"""Keys and values in a runtime's own arrays: numpy arrays, or tensors that stay on the GPU. Every step and slab also
takes numpy arrays."""

FIRST_ROWS = 256
"""Rows of a new slab."""


class Step(NamedTuple):
    """The result for M tokens."""

    log_probs: Floats
    """(M, K), falling"""
    ids: NDArray[np.int64]
    """(M, K)"""
    rows: list[Rows]
    """The M new rows of each layer, in the shapes of `cache_shapes`."""
    states: Floats | None = None
    """(M, E), before the head; None unless requested."""


class Correction(NamedTuple):
    """A correction of the logits, of rank R: the hidden states times `down` times `up` are added to them."""

    down: Floats
    """(E, R)"""
    up: Floats
    """(R, V), V: the tokens that the head can draft, in their order."""

    @classmethod
    def none(cls, config: DrafterConfig) -> Correction:
        """A correction that changes nothing."""
        kept = len(config.draft_vocabulary) or config.vocabulary
        return cls(np.zeros((config.hidden, 1), np.float32), np.zeros((1, kept), np.float32))


class RowStore(Protocol):
    """Keys and values of consecutive rows of one layer. It grows as rows are written."""

    def write(self, at: int | NDArray[np.int64], rows: Rows) -> None:
        """Put `rows` at the slots from `at` on, or at the slots listed in it."""

    def rows(self, slots: int | NDArray[np.int64]) -> Rows:
        """The first `slots` rows, valid until the next write, or a copy of the listed rows."""
        ...

    def nbytes(self, rows: int = 0) -> int:
        """Bytes that are allocated, or that would be after a write up to `rows`."""
        ...


class DraftStep(Protocol):
    """The interface that drafting needs from a runtime. Thread-safe."""

    @property
    def runtime(self) -> str:
        """Library, device and kind of numbers, for people."""
        ...

    @property
    def cache_shapes(self) -> list[tuple[int, int]]:
        """(heads, size) of each layer's rows; see the function of this name."""
        ...

    @property
    def independent_rows(self) -> bool:
        """True if a token's result is the same, bit for bit, whatever tokens run with it."""
        ...

    def slab(self, heads: int, size: int) -> RowStore:
        """An empty store of rows, in the runtime's preferred form."""
        ...

    def __call__(
        self,
        tokens: NDArray[np.int64],
        positions: NDArray[np.int64],
        mask: Floats,
        past: Sequence[Rows],
        memory: Rows,
    ) -> Step:
        """Run M tokens.

        `tokens`, `positions` (M,). `mask` (M, P+M) of 0 and `NEVER`, over the cached rows, then the new ones. `past`:
        the P cached rows of each layer. `memory`: T rows.
        """
        ...


class StepGraph:
    """The step graph of a drafter as a function. It is a `DraftStep`."""

    runtime = "ONNX Runtime on cpu"

    def __init__(self, path: Path, config: DrafterConfig, *, states: bool = False) -> None:
        """`states`: return the hidden states too.

        Raises `DrafterCorrupt` for a file that is not the step graph of this config, `ValueError` for `states` of a
        graph without them.
        """
        from models.ort import graph_session  # Imports ONNX Runtime.

        try:
            session = graph_session(*loadable(path), threads=draft_threads())
        except Exception as error:  # The runtime's errors have no narrower common class.
            raise DrafterCorrupt(f"{path} cannot be loaded ({error}). Reinstall the drafter.") from None
        self.cache_shapes = cache_shapes(config)
        self._inputs, self._outputs = graph_names(config)
        has = {node.name for node in session.get_inputs()}, [node.name for node in session.get_outputs()]
        if has != (set(self._inputs), self._outputs):
            raise DrafterCorrupt(f"{path} is not the graph that its config describes. Reinstall the drafter.")
        if states and not config.correctable:
            raise ValueError("this graph gives no hidden states")
        self._gives = self._outputs if states or not config.correctable else self._outputs[:-1]
        self._states = states
        self.correction = Correction.none(config) if config.correctable else ()
        """The correction, which may be replaced between two steps; empty if the graph takes none."""
        self._vocabulary = config.vocabulary
        self._memory_shape = config.memory_layers[0]
        self._session: Any = session

    def become(self, other: StepGraph) -> None:
        """From the next step on, run the graph of `other`, which has the same config."""
        self._session = other._session

    def slab(self, heads: int, size: int) -> Slab:
        return Slab(heads, size)

    def __call__(
        self,
        tokens: NDArray[np.int64],
        positions: NDArray[np.int64],
        mask: Floats,
        past: Sequence[KeysValues],
        memory: KeysValues,
    ) -> Step:
        arrays = tokens, positions, mask, *memory, *(array for pair in past for array in pair), *self.correction
        log_probs, ids, *new = self._session.run(self._gives, dict(zip(self._inputs, arrays, strict=True)))
        states = new.pop() if self._states else None
        return Step(log_probs, ids, list(zip(new[::2], new[1::2])), states)

    @cached_property
    def independent_rows(self) -> bool:
        """Whether a token's result depends on nothing else in the step.

        It does if all rows of a step are quantised with one scale, or if this machine's kernels add in an order that
        depends on the number of rows. So it is tested, once, on five steps of random rows.
        """
        random = np.random.default_rng(0)
        cached, rows = 300, 17  # More than one block of the kernels' sums, and as many rows as the second stage runs.

        def pair(shape: tuple[int, int], count: int) -> KeysValues:
            keys, values = random.normal(size=(2, shape[0], count, shape[1])).astype(np.float32)
            return keys, values

        tokens = random.integers(self._vocabulary, size=rows)
        memory = pair(self._memory_shape, 64)
        past = [pair(shape, cached + rows) for shape in self.cache_shapes]

        def run(first: int, count: int) -> Step:
            seen = cached + first
            mask = np.triu(np.full((count, seen + count), NEVER), k=seen + 1)
            before = [
                (np.ascontiguousarray(keys[:, :seen]), np.ascontiguousarray(values[:, :seen])) for keys, values in past
            ]
            return self(tokens[first : first + count], np.arange(seen, seen + count), mask, before, memory)

        whole = run(0, rows)
        for (keys, values), (new_keys, new_values) in zip(past, whole.rows):
            keys[:, cached:], values[:, cached:] = new_keys, new_values
        for first, count in ((0, 1), (rows - 1, 1), (0, 2), (3, 6)):
            part, same = run(first, count), slice(first, first + count)
            pairs: list[tuple[NDArray[Any], NDArray[Any]]] = [
                (part.log_probs, whole.log_probs[same]),
                (part.ids, whole.ids[same]),
            ]
            pairs += [(new[i], all_new[i][:, same]) for new, all_new in zip(part.rows, whole.rows) for i in (0, 1)]
            if not all(np.array_equal(one, other) for one, other in pairs):
                return False
        return True


def cache_shapes(config: DrafterConfig) -> list[tuple[int, int]]:
    """(heads, size) of each layer's rows: the target's first layers, the self-attentions, the target's last layers."""
    own, target = (config.kv_heads, config.head_size), (config.target_kv_heads, config.target_head_size)
    return [target] * config.first_layers + [own] * config.blocks + [target] * config.inference_layers


def graph_names(config: DrafterConfig) -> tuple[list[str], list[str]]:
    """The names of the step graph's inputs and outputs, in order."""
    layers = {"first": config.first_layers, "self": config.blocks, "last": config.inference_layers}
    cached = [f"{layer}_{side}_{i}" for layer in layers for i in range(layers[layer]) for side in ("keys", "values")]
    inputs = ["tokens", "positions", "mask", "memory_keys", "memory_values", *cached]
    outputs = ["log_probs", "ids", *(f"new_{name}" for name in cached)]
    return ([*inputs, "down", "up"], [*outputs, "states"]) if config.correctable else (inputs, outputs)


class Slab:
    """A `RowStore` of arrays that double in size when they are full."""

    def __init__(self, heads: int, size: int) -> None:
        self.keys: Floats = np.zeros((heads, FIRST_ROWS, size), np.float32)
        self.values: Floats = np.zeros_like(self.keys)

    def write(self, at: int | NDArray[np.int64], rows: KeysValues) -> None:
        if isinstance(at, int):
            end = at + rows[0].shape[1]
            self._reserve(end)
            self.keys[:, at:end], self.values[:, at:end] = rows
        elif at.size:
            self._reserve(int(at.max()) + 1)
            self.keys[:, at], self.values[:, at] = rows

    def rows(self, slots: int | NDArray[np.int64]) -> KeysValues:
        """Contiguous copies of the first `slots` rows, or of the listed ones."""
        chosen = slice(slots) if isinstance(slots, int) else slots
        return np.ascontiguousarray(self.keys[:, chosen]), np.ascontiguousarray(self.values[:, chosen])

    def nbytes(self, rows: int = 0) -> int:
        held, capacity = self.keys.nbytes + self.values.nbytes, self.keys.shape[1]
        return held if rows <= capacity else held // capacity * 2 * rows

    def _reserve(self, rows: int) -> None:
        heads, capacity, size = self.keys.shape
        if rows > capacity:
            more = np.zeros((heads, max(rows, 2 * capacity) - capacity, size), np.float32)
            self.keys = np.concatenate((self.keys, more), axis=1)
            self.values = np.concatenate((self.values, more), axis=1)
