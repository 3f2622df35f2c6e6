"""The nodes and weights of an ONNX graph while it is written by hand. Needs the `onnx` package, but no PyTorch.

Writing a graph by hand takes a second, where a tracing exporter takes half a minute, and can use the fused operators of
ONNX Runtime (domain com.microsoft).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from models.config import INLINE
from models.files import PACKED

MICROSOFT = "com.microsoft"
OPSET = 18
Declared = tuple[str, int, Sequence[str | int] | None]
"""(name, kind of numbers, dimensions) of an input or output. Dimensions may be left open."""


class OnnxNodes:
    """Adds nodes in the order in which they run. Values are known by their names."""

    def __init__(self) -> None:
        self._nodes: list[onnx.NodeProto] = []
        self._stored: dict[str, onnx.TensorProto] = {}

    def put(self, name: str, value: NDArray[Any] | np.generic) -> str:
        """Store a weight or a constant, unless one of this name, which must be equal, exists."""
        if name not in self._stored:
            self._stored[name] = onnx.numpy_helper.from_array(np.ascontiguousarray(value), name)
        return name

    def leave_out(self, name: str, like: NDArray[Any]) -> str:
        """Declare a weight that is given to the graph when it is loaded."""
        self._stored[name] = left_out(name, like)
        return name

    def whole(self, *numbers: int) -> str:
        """Store integers, as used for shapes and axes."""
        return self.put(f"numbers {numbers}", np.array(numbers, np.int64))

    def add(self, kind: str, inputs: Sequence[str], output: str | None = None, **attributes: Any) -> str:
        """Add a node with one result, and return the result's name."""
        (made,) = self.several(kind, inputs, 1, [output] if output else None, **attributes)
        return made

    def several(
        self, kind: str, inputs: Sequence[str], count: int, names: list[str] | None = None, **attributes: Any
    ) -> list[str]:
        """Add a node with `count` results, and return their names."""
        names = names or [f"{kind}_{len(self._nodes)}_{at}" for at in range(count)]
        self._nodes.append(onnx.helper.make_node(kind, inputs, names, **attributes))
        return names

    def reshape(self, x: str, *dims: int) -> str:
        """In the shape, 0 keeps a dimension and -1 is inferred."""
        return self.add("Reshape", [x, self.whole(*dims)])

    def split(self, x: str, widths: Sequence[int], axis: int = -1, names: Sequence[str] = ()) -> list[str]:
        """Split an axis. `names`: of the parts; empty ones are generated."""
        made = [name or f"Split_{len(self._nodes)}_{at}" for at, name in enumerate(names)]
        return self.several("Split", [x, self.whole(*widths)], len(widths), made or None, axis=axis)

    def norm(self, x: str, weight: str, eps: float) -> str:
        """Root-mean-square norm over the last axis."""
        return self.add("SimplifiedLayerNormalization", [x, weight], axis=-1, epsilon=eps, stash_type=1)

    def add_and_norm(self, x: str, other: str, weight: str, eps: float) -> tuple[str, str]:
        """The sum of two inputs, (N, width), and its root-mean-square norm, in one node."""
        at = len(self._nodes)
        total, normed = f"sum_{at}", f"normed_{at}"
        names = [normed, "", "", total]
        self.several("SkipSimplifiedLayerNormalization", [x, other, weight], 4, names, domain=MICROSOFT, epsilon=eps)
        return total, normed

    def silu(self, x: str) -> str:
        return self.add("QuickGelu", [x], domain=MICROSOFT, alpha=1.0)

    def rotate(self, x: str, rows: str, cos: str, sin: str, output: str | None = None) -> str:
        """Rotate heads, (B, n, heads*size) or (B, heads, n, size), by the rows of `cos` and `sin` that `rows` (B, n)
        lists."""
        return self.add("RotaryEmbedding", [x, rows, cos, sin], output, domain=MICROSOFT)

    def times_transposed(self, x: str, other: str, factor: float) -> str:
        """`x` times `other` with its last two axes swapped, times `factor`."""
        return self.add("FusedMatMul", [x, other], domain=MICROSOFT, transB=1, alpha=factor)

    def save(
        self,
        path: Path,
        name: str,
        inputs: Sequence[Declared],
        outputs: Sequence[Declared],
        about: Mapping[str, str] | None = None,
    ) -> None:
        """Write the graph. Large weights go into a `*.data` file. `about`: its metadata."""
        declared = ([onnx.helper.make_tensor_value_info(*value) for value in values] for values in (inputs, outputs))
        graph = onnx.helper.make_graph(self._nodes, name, *declared, list(self._stored.values()))
        opsets = [onnx.helper.make_opsetid("", OPSET), onnx.helper.make_opsetid(MICROSOFT, 1)]
        model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)
        onnx.helper.set_model_props(model, dict(about or {}))
        save_graph(model, path)


def save_graph(model: onnx.ModelProto, path: Path) -> None:
    """Write a graph, with large weights in a `*.data` file beside it."""
    beside = path.with_name(f"{path.name}.data")
    beside.unlink(missing_ok=True)  # onnx would append to an existing file.
    inline = sum(len(tensor.raw_data) for tensor in model.graph.initializer) <= INLINE
    onnx.save(model, path, save_as_external_data=not inline, location=beside.name)


def left_out(name: str, like: NDArray[Any]) -> onnx.TensorProto:
    """A weight of this shape and kind that is unpacked when its graph is loaded; see `models/graph_file.py`."""
    tensor = onnx.TensorProto(name=name, dims=like.shape, data_location=onnx.TensorProto.EXTERNAL)
    tensor.data_type = onnx.helper.np_dtype_to_tensor_dtype(like.dtype)
    tensor.external_data.add(key="location", value=PACKED)
    return tensor
