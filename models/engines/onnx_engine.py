"""The engine for a target as an ONNX graph, on ONNX Runtime's CPU kernels. It needs no PyTorch.

`recipes/shell_guide/graph.py` writes the graph and says what its inputs are. A single context runs on its own slab
without copying. Contexts that run together are copied into one buffer for attention, because the kernels need them side
by side; linear layers run over all rows without padding.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from models.config import Rope
from models.engines.engine import Engine, Floats, Forward, TargetContext, UnverifiableTarget, tree_difference
from models.engines.memory_encoder import ArrayEncoder, turns
from models.errors import CorruptWeights
from models.files import graph_bytes
from models.graph_file import loadable
from models.tree import NEVER

METADATA = "outrider"
"""Name of the graph's entry that holds its `GraphShape`."""
CHUNK = 64
"""Tokens of a prompt in one forward. On a CPU, more are hardly faster, and make others wait longer."""
ROWS = 128
SHRINK = 256
"""Forwards between checks of the buffer sizes."""
WASTE = 6
"""How many padded query rows times keys a batch may have, per number of a query row. This costs as much as one more run
of the graph, in which the linear layers read their weights again."""


class GraphShape(msgspec.Struct, frozen=True):
    """The shape of a target, as stored in its graph."""

    layers: int
    heads: int
    kv_heads: int
    head_size: int
    vocabulary: int
    theta: float
    int8: bool
    """Weights have 8 bits, and the sums of attention 64; otherwise everything is float32."""


def graph_inputs(shape: GraphShape) -> list[str]:
    cached = [f"{side}_{layer}" for layer in range(shape.layers) for side in ("keys", "values")]
    return ["tokens", "cos", "sin", "queries", "back", "mask", "lengths", "wanted", *cached]


def graph_outputs(shape: GraphShape) -> list[str]:
    return ["logits", *(f"new_{side}_{layer}" for layer in range(shape.layers) for side in ("keys", "values"))]


class ArrayContext(TargetContext):
    """A conversation whose keys and values are arrays, (layers, heads, capacity, size)."""

    def __init__(self, shape: GraphShape) -> None:
        super().__init__()
        self._shape = shape
        self.keys, self.values = self._empty()

    @property
    def capacity(self) -> int:
        return int(self.keys.shape[2])

    def reserve(self, rows: int, kept: int = 0) -> None:
        """Make room for this many rows, and keep the first `kept`."""
        if rows > self.capacity:
            # Attention reads all rows of a slab, used or not, so this slab grows less than others, within `slab_rows`.
            capacity = max(64, rows + rows // 8 + 16)
            self.keys, self.values = (_grown(part, capacity, kept) for part in (self.keys, self.values))

    def write(self, start: int, layer: int, keys: Floats, values: Floats) -> None:
        """Put the rows of one layer, (heads, rows, size), at `start`."""
        end = start + keys.shape[1]
        self.keys[layer, :, start:end], self.values[layer, :, start:end] = keys, values

    def _keep(self, start: int, rows: Sequence[int]) -> None:
        if len(rows) and list(rows) != list(range(start, start + len(rows))):
            for slab in (self.keys, self.values):
                slab[:, :, start : start + len(rows)] = slab[:, :, rows]

    def _copy(self, other: TargetContext, count: int) -> bool:
        assert isinstance(other, ArrayContext)
        self.reserve(count)
        for rows, others in zip(_sides(self), _sides(other)):
            rows[:, :, :count] = others[:, :, :count]
        return True

    def _free(self) -> None:
        self.keys, self.values = self._empty()

    def _empty(self) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        shape = self._shape
        empty = shape.layers, shape.kv_heads, 0, shape.head_size
        return np.zeros(empty, np.float32), np.zeros(empty, np.float64 if shape.int8 else np.float32)


def _grown(rows: NDArray[np.floating], capacity: int, kept: int) -> NDArray[np.floating]:
    # Zeros, because unwritten rows are read too, with a weight of 0.
    grown = np.zeros((*rows.shape[:2], capacity, rows.shape[3]), rows.dtype)
    grown[:, :, :kept] = rows[:, :, :kept]
    return grown


class OnnxEngine(Engine):
    """A target's graph.

    The constructor verifies a small tree in two ways, as a tree and token by token. Raises `CorruptWeights` for a file
    that is no graph, `UnfitDrafter`, `BrokenTarget`, and `UnverifiableTarget` if drafts could change the text: with
    weights of 8 bits, if this processor's kernels sum in an order that depends on the tree.
    """

    def __init__(
        self, path: Path, encoder: ArrayEncoder | None = None, *, chunk: int = CHUNK, threads: int = 1
    ) -> None:
        from models.ort import graph_session  # Imports ONNX Runtime.

        try:
            session = graph_session(*loadable(path), threads=threads, spin=True)
            about = session.get_modelmeta().custom_metadata_map[METADATA]
            self.shape = msgspec.json.decode(about, type=GraphShape)
            if {value.name for value in session.get_inputs()} != set(graph_inputs(self.shape)):
                raise ValueError("another version of Outrider wrote it")
        except Exception as error:  # The runtime's errors have no narrower common class.
            raise CorruptWeights(f"{path} cannot be loaded ({error}). Make it again, or use --engine torch.") from None
        self._session: Any = session
        self._bytes = graph_bytes(path)
        self._inputs, self._outputs = graph_inputs(self.shape), graph_outputs(self.shape)
        self._group = self.shape.heads // self.shape.kv_heads
        self._staged: dict[int, NDArray[np.floating]] = {}
        """Buffers for the keys and the values of sessions that run together, kept for the next forward."""
        self._most_staged, self._forwards = 0, 0
        self._turns = self._rotations(0)
        self.vocabulary, self.chunk, self.row_budget = self.shape.vocabulary, chunk, ROWS
        numbers = self.shape.layers * self.shape.kv_heads * self.shape.head_size
        self.bytes_per_token = numbers * (4 + (8 if self.shape.int8 else 4))
        self.encoder: ArrayEncoder | None = None
        self.key_shape = self.shape.layers, self.shape.kv_heads, self.shape.head_size
        if encoder is not None:
            self.remember_with(encoder)
        if tree_difference(self) > (0.0 if self.shape.int8 else 0.002):
            raise UnverifiableTarget(
                f"On this processor {path.name} reads a draft tree differently from its paths. Use --engine torch."
            )

    @property
    def description(self) -> str:
        kind = "8 bits" if self.shape.int8 else "float32"
        return f"ONNX Runtime, {kind}, {self._bytes / 1e6:,.0f} MB, on cpu"

    def context(self) -> ArrayContext:
        return ArrayContext(self.shape)

    def memory(self, context: TargetContext, start: int, end: int) -> bytes:
        assert self.encoder is not None and isinstance(context, ArrayContext)
        keys, values = (side[:, :, start:end].transpose(2, 0, 1, 3).astype(np.float32) for side in _sides(context))
        return self.encoder.packed(keys, values, start)

    def _run(self, requests: Sequence[Forward]) -> list[Floats]:
        logits: dict[int, Floats] = {}
        for group in _groups(requests, WASTE * self.shape.heads * self.shape.head_size):
            logits |= zip(group, self._together([requests[at] for at in group]))
        self._shrink()
        return [logits[at] for at in range(len(requests))]

    def _together(self, requests: Sequence[Forward]) -> list[Floats]:
        """Run requests as one batch of the graph."""
        contexts = list[ArrayContext]()
        for request in requests:
            assert isinstance(request.context, ArrayContext)
            contexts.append(request.context)
            request.context.reserve(request.start + request.rows, request.start)
        cached = contexts[0].capacity if len(requests) == 1 else max(request.start for request in requests)
        counts = [request.rows for request in requests]
        ends = np.cumsum(counts)
        positions = np.concatenate([request.positions for request in requests])
        cos, sin = self._rotations(int(positions.max()) + 1)
        # A product with one row sums in another order than the same row among others.
        width = max(*counts, 2 if self._group == 1 else 1)
        turned = np.resize(positions, max(len(positions), width))  # The kernel needs at least one per query.
        queries = np.zeros((len(requests), width), np.int64)
        mask = np.full((len(requests), self._group, width, cached + width), NEVER, np.float32)
        wanted = list[NDArray[np.int64]]()
        for at, (request, end, count) in enumerate(zip(requests, ends.tolist(), counts)):
            known, past = request.context.computed, request.start
            visible = request.visible(known)
            queries[at, :count] = np.arange(end - count, end)
            mask[at, :, :count, :known] = 0.0
            mask[at, :, :count, known:past][:, visible[:, : past - known]] = 0.0
            mask[at, :, :count, cached : cached + count][:, visible[:, past - known :]] = 0.0
            wanted.append(np.arange(end - request.wanted, end))
        back = [at * width + np.arange(count) for at, count in enumerate(counts)]
        arrays = [
            np.array([token for request in requests for token in request.tokens], np.int64),
            cos[turned],
            sin[turned],
            queries,
            np.concatenate(back),
            mask.reshape(len(requests), 1, -1, cached + width),
            np.array([cached, width], np.int64),
            np.concatenate(wanted),
            *self._cached(requests, contexts, cached),
        ]
        logits, *new = self._session.run(self._outputs, dict(zip(self._inputs, arrays, strict=True)))
        for layer, (keys, values) in enumerate(zip(new[::2], new[1::2])):
            for at, (request, context, count) in enumerate(zip(requests, contexts, counts)):
                context.write(request.start, layer, keys[at, :, :count], values[at, :, :count])
        begins = itertools.accumulate((len(rows) for rows in wanted), initial=0)
        return [logits[begin : begin + len(rows)] for begin, rows in zip(begins, wanted)]

    def _cached(
        self, requests: Sequence[Forward], contexts: Sequence[ArrayContext], rows: int
    ) -> list[NDArray[np.floating]]:
        """The first `rows` cached rows, (B, heads, rows, size), as keys and values of each layer."""
        if len(contexts) == 1:
            return [side[layer][None] for layer in range(self.shape.layers) for side in _sides(contexts[0])]
        whole = []
        for side in range(2):
            staged = self._stage(side, contexts[0], len(contexts), rows)
            for at, (request, context) in enumerate(zip(requests, contexts)):
                staged[:, at, :, : request.start] = _sides(context)[side][:, :, : request.start]
            whole.append(staged)
        return [staged[layer] for layer in range(self.shape.layers) for staged in whole]

    def _stage(self, side: int, like: ArrayContext, count: int, rows: int) -> NDArray[np.floating]:
        """A buffer for the rows of several contexts, (layers, B, heads, rows, size), reused by the next forward."""
        slab = _sides(like)[side]
        shape = self.shape.layers, count, self.shape.kv_heads, rows, self.shape.head_size
        size = int(np.prod(shape))
        self._most_staged = max(self._most_staged, size)
        held = self._staged.get(side)
        if held is None or len(held) < size:
            held = self._staged[side] = np.zeros(size, slab.dtype)
        return held[:size].reshape(shape)

    def _shrink(self) -> None:
        """Free buffers that have been far too large for a while: many concurrent sessions may be followed by few."""
        self._forwards += 1
        if self._forwards % SHRINK == 0:
            largest = max(map(len, self._staged.values()), default=0)
            if largest > 2 * self._most_staged:
                self._staged = {}
            self._most_staged = 0

    def _rotations(self, positions: int) -> tuple[Floats, Floats]:
        """Cosines and sines of at least this many positions."""
        if positions == 0 or positions > len(self._turns[0]):
            count = max(1024, 2 * positions)
            self._turns = turns(np.arange(count), self.shape.head_size, Rope(self.shape.theta))
        return self._turns


def _sides(context: ArrayContext) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    return context.keys, context.values


def _groups(requests: Sequence[Forward], waste: int) -> list[list[int]]:
    """Group requests of similar size to run together, so that attention is not padded too much.

    `waste`: how many query rows times keys may be padding in a group.
    """
    sizes = [(request.rows, request.start) for request in requests]
    groups = list[list[int]]()
    count = used = keys = 0
    for at in sorted(range(len(requests)), key=lambda at: sizes[at]):
        rows, computed = sizes[at]
        count, used, keys = count + 1, used + rows * computed, max(keys, computed)
        if groups and count * rows * keys - used <= waste:  # The newest is the widest.
            groups[-1].append(at)
        else:
            groups.append([at])
            count, used, keys = 1, rows * computed, computed
    return groups
