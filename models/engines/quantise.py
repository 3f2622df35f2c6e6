"""Turns a float graph into a quantised one.

There are two ways for the weights of the linear layers and the head. `int8` has one scale per output. It runs in
integer kernels on inputs that are quantised on the fly, with one scale per row: with a common scale, a token's result
would depend on the tokens that run with it. `nbits8` and `nbits4` have one scale per block of consecutive inputs (ONNX
Runtime's MatMulNBits); their kernels quantise each block of each row by itself. `auto` takes `int8` for large matrices
and `nbits8` for the others; see `LARGE`. The embedding is always int8 with one scale per token, because with a common
scale a few large rows would coarsen all others. Needs the `onnx` package, which only making drafters takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from models.config import DrafterCorrupt, Scheme
from models.engines.engine import Floats
from models.engines.onnx_nodes import left_out, save_graph
from models.files import PACKED
from models.packed import Weight, flat, in_rows

BLOCK = {8: 64, 4: 32}
"""Weights that share a scale, by their bits. Blocks of twice the size are faster (8 bits: by a fifth with one row), but
with them the x86 kernels give a row different last bits alone than together with another row."""

LARGE = 1_000_000
"""Weights of a matrix from which on `auto` takes `int8`. One more row costs its kernels a third of what it costs those
of `nbits8`. But with one row they read memory more slowly, and the scales of their inputs add five small nodes. The
criterion is the time of a step of 1 row plus one of 8 rows. In milliseconds, on one thread of a busy AMD EPYC (`python
-m benchmarks.draft_step`, `--shapes 8b`):

                                                 int8            nbits8          nbits4          auto
    bundled, matrices of 0.05M to 1.6M           1.76 + 2.49     1.27 + 2.58     1.14 + 2.64     1.25 + 2.47
    8B target, matrices of 4M to 131M            51.0 + 77.5     43.0 + 114.7    33.1 + 115.4    as int8

`nbits4` is never chosen: it is fast with one row only, and where the bundled drafter has no memory, the likeliest token
changes at one position in five.
"""

PIECE = 1024
"""Rows of a matrix that are quantised at the same time."""


def quantise_graph(
    source: Path, path: Path, scheme: Scheme = "int8", packed: Mapping[str, Weight] | None = None
) -> None:
    """Write the quantised graph of the float step graph `source` to `path`. Raises `DrafterCorrupt`.

    `packed`: weights that are known in fewer bits (`models/packed.py`), by their names in the graph. The matrices of
    `int8` are then in tensors that no node uses, and are unpacked when the graph is loaded.
    """
    try:
        model = onnx.load(source, load_external_data=False)
    except Exception as error:  # onnx raises protobuf's errors, which have no public class.
        raise DrafterCorrupt(f"{source} is not an ONNX graph ({error}). Export the float drafter again.") from None
    graph = _Rewriting(model.graph, source.parent, packed)
    looked_up = False
    for node in model.graph.node:
        weight = node.input[1] if len(node.input) > 1 else ""
        if node.op_type == "Gather" and weight == "tokens":
            graph.look_up(node)
            looked_up = True
        elif node.op_type in ("Gemm", "MatMul") and graph.is_matrix(weight):
            graph.multiply(node, scheme)
        else:
            graph.keep(node)
    if not looked_up:
        raise DrafterCorrupt(f"{source} has no embedding of its tokens. Export the float drafter again.")
    graph.finish()
    save_graph(model, path)


class _Rewriting:
    """The nodes and weights of a graph while its matrices are replaced, with one matrix in memory at a time."""

    def __init__(self, graph: onnx.GraphProto, folder: Path, packed: Mapping[str, Weight] | None) -> None:
        """`folder`: of the weights that are too large for the graph's own file."""
        self.graph, self.folder, self._packed = graph, str(folder), packed
        self._kept: dict[str, Weight] = {}
        """Weights that are unpacked when the graph is loaded."""
        self.nodes: list[onnx.NodeProto] = []
        self._float = {tensor.name: tensor for tensor in graph.initializer}
        self._rows: set[str] = set()
        """Activations that also exist in int8."""

    def is_matrix(self, name: str) -> bool:
        return name in self._float and len(self._float[name].dims) == 2

    def take(self, name: str) -> NDArray[Any]:
        """Read a weight of the float graph, without changing it."""
        tensor = onnx.TensorProto()
        tensor.CopyFrom(self._float[name])
        numbers: NDArray[Any] = onnx.numpy_helper.to_array(tensor, self.folder)
        return numbers

    def put(self, name: str, value: NDArray[Any] | np.generic) -> str:
        self.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(value), name))
        return name

    def add(self, kind: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        self.nodes.append(onnx.helper.make_node(kind, inputs, [output], **attributes))
        return output

    def keep(self, node: onnx.NodeProto) -> None:
        self.nodes.append(node)

    def multiply(self, node: onnx.NodeProto, scheme: Scheme) -> None:
        """Replace a linear layer by integer operations: its input (M, K) times its weight."""
        x, weight, *bias = node.input
        transposed = any(attribute.name == "transB" and attribute.i for attribute in node.attribute)
        matrix = np.ascontiguousarray(self.take(weight).T if transposed else self.take(weight))
        (output,) = node.output
        product = f"{output}.unbiased" if bias else output
        if scheme == "int8" or (scheme == "auto" and matrix.size >= LARGE):
            self._multiply_by_output(x, matrix, weight, product)
        else:
            self._multiply_by_block(x, matrix, weight, product, 4 if scheme == "nbits4" else 8)
        if bias:
            self.add("Add", [product, *bias], output)

    def _multiply_by_output(self, x: str, matrix: NDArray[Any], name: str, product: str) -> None:
        """Multiply with one scale per output and one for each row of `x`."""
        scale, zero = "row.scale", "row.zero_point"
        if not self._rows:
            self.put(scale, np.float32(1 / 127))
            self.put(zero, np.uint8(128))  # x86 has integer kernels for unsigned inputs with signed weights.
            self.put("row.axis", np.array([-1], np.int64))
        if x not in self._rows:
            self._rows.add(x)
            self.add("Abs", [x], f"{x}.sizes")
            self.add("ReduceMax", [f"{x}.sizes", "row.axis"], f"{x}.largest")
            # In a row of zeros this is 0 / 0, which becomes an arbitrary 8-bit number, but is finally multiplied by 0.
            self.add("Div", [x, f"{x}.largest"], f"{x}.unit")
            self.add("QuantizeLinear", [f"{x}.unit", scale, zero], f"{x}.int8")
        if self._packed is None:
            numbers, scales = symmetric(matrix, axis=0)
            weight = [self.put(f"{name}.int8", numbers), self.put(f"{name}.scales", scales[0])]
        else:
            name = self._keep(name, self._packed.get(name), matrix)
            weight = [self.leave_out(f"{name}.columns", np.empty(matrix.shape, np.int8)), f"{name}.scales"]
        factors = [f"{x}.int8", weight[0], scale, weight[1], zero]
        unscaled = self.add("MatMulIntegerToFloat", factors, f"{product}.unscaled", domain="com.microsoft")
        self.add("Mul", [unscaled, f"{x}.largest"], product)

    def _multiply_by_block(self, x: str, matrix: NDArray[Any], name: str, product: str, bits: int) -> None:
        """Multiply with one scale for each block of inputs to an output.

        The kernel quantises `x` in the same blocks.
        """
        numbers, scales = in_blocks(matrix, bits)
        factors = [x, self.put(f"{name}.nbits{bits}", numbers), self.put(f"{name}.scales", scales)]
        inputs, outputs = matrix.shape
        shape = {"K": inputs, "N": outputs, "bits": bits, "block_size": BLOCK[bits]}
        # Level 4 multiplies integers. The default is float, which is 50 times as slow.
        self.add("MatMulNBits", factors, product, domain="com.microsoft", accuracy_level=4, **shape)

    def look_up(self, node: onnx.NodeProto) -> None:
        """Replace the embedding: an int8 row times its scale."""
        table, (output,) = self.take(node.input[0]), node.output
        if self._packed is None:
            numbers, scales = symmetric(table, axis=1)
            weight = [self.put("embedding.int8", numbers), self.put("embedding.scale", scales)]
        else:
            name = self._keep(node.input[0], self._packed.get(node.input[0]), table.T)
            weight = [self.leave_out(f"{name}.rows", np.empty(table.shape, np.int8)), f"{name}.row_scales"]
            self.leave_out(weight[1], table[:, :1])
        rows = self.add("Gather", [weight[0], "tokens"], "embedding.looked_up")
        rows = self.add("Cast", [rows], "embedding.float", to=onnx.TensorProto.FLOAT)
        scale = self.add("Gather", [weight[1], "tokens"], "embedding.scales")
        self.add("Mul", [rows, scale], output)

    def _keep(self, name: str, weight: Weight | None, matrix: NDArray[Any]) -> str:
        """Keep a matrix (inputs, outputs) to be unpacked, and return the name under which it is kept."""
        same = [other for other, kept in self._kept.items() if kept is weight]
        if same:
            return same[0]
        self._kept[name] = weight if weight is not None else in_rows(np.ascontiguousarray(matrix.T))
        for tensor, numbers in flat({name: self._kept[name]}).items():
            self.put(tensor, numbers)
        return name

    def leave_out(self, name: str, like: NDArray[Any]) -> str:
        self.graph.initializer.append(left_out(name, like))
        return name

    def finish(self) -> None:
        """Replace the graph's nodes by the new ones, and keep only the weights that they use."""
        used = {name for node in self.nodes for name in node.input} | flat(self._kept).keys()
        for at in reversed(range(len(self.graph.initializer))):
            if self.graph.initializer[at].name not in used:
                del self.graph.initializer[at]
            elif any(
                part.value != PACKED for part in self.graph.initializer[at].external_data if part.key == "location"
            ):
                onnx.external_data_helper.load_external_data_for_tensor(self.graph.initializer[at], self.folder)
        del self.graph.node[:], self.graph.value_info[:]
        self.graph.node.extend(self.nodes)


def symmetric(matrix: NDArray[Any], axis: int) -> tuple[NDArray[np.int8], Floats]:
    """int8 of a matrix with one scale for each row (`axis` 1) or column (0). The scales keep that axis."""
    largest = np.maximum(matrix.max(axis=axis, keepdims=True), -matrix.min(axis=axis, keepdims=True))
    scales = (np.maximum(largest, np.float32(1e-12)) / np.float32(127)).astype(np.float32)
    numbers = np.empty(matrix.shape, np.int8)
    for begin in range(0, len(matrix), PIECE):  # A large embedding should be in memory only once, not three times.
        piece = slice(begin, begin + PIECE)
        numbers[piece] = np.rint(matrix[piece] / (scales[piece] if axis else scales))
    return numbers, scales


def in_blocks(matrix: NDArray[Any], bits: int) -> tuple[NDArray[np.uint8], Floats]:
    """MatMulNBits' form of a matrix (K, N): (N, blocks, bytes of a block), and scales (N, blocks).

    ONNX Runtime's own packer does the same, but importing it configures the program's logging. The largest number of a
    block, of either sign, becomes the lowest integer, because there is one more integer below zero than above.
    """
    block, half = BLOCK[bits], 1 << (bits - 1)
    inputs, outputs = matrix.shape
    blocks = -(-inputs // block)
    numbers = np.empty((outputs, blocks, block * bits // 8), np.uint8)
    scales = np.empty((outputs, blocks), np.float32)
    for begin in range(0, outputs, PIECE):
        piece = slice(begin, begin + PIECE)
        rows = np.pad(matrix[:, piece].T, ((0, 0), (0, blocks * block - inputs))).reshape(-1, blocks, block)
        low, high = rows.min(axis=-1), rows.max(axis=-1)
        scales[piece] = np.where(-low > high, low, high) / np.float32(-half)
        divisors = np.where(scales[piece] == 0, np.float32(1), scales[piece])
        unsigned = np.clip(np.rint(rows / divisors[..., None]) + half, 0, 2 * half - 1).astype(np.uint8)
        numbers[piece] = unsigned if bits == 8 else unsigned[..., ::2] | unsigned[..., 1::2] << 4
    return numbers, scales
