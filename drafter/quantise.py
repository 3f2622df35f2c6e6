"""From the float step graph to the int8 one, and how far the two differ.

Weights of the linear layers and of the head are int8 with a scale per output, and run in integer kernels on inputs
quantised as they come, each row with a scale of its own: with a common one a token's result would depend on the tokens
that happen to run beside it. The embedding is int8 with a scale per token: a common one would let a few large rows
coarsen all the others. Needs the `onnx` package, which only those who make drafters have.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnxruntime.quantization import QuantType, quantize_dynamic

from drafter.config import DrafterCorrupt
from drafter.step import NEVER, Floats, KeysValues, StepGraph


def quantise_graph(source: Path, path: Path) -> None:
    """Write the int8 graph of the float step graph `source` to `path`. Raises `DrafterCorrupt`."""
    try:
        model = onnx.load(source)
    except Exception as error:  # onnx raises protobuf's errors, which have no public class.
        raise DrafterCorrupt(f"{source} is no ONNX graph ({error}). Export the float drafter again.") from None
    _quantise_embedding(model, source)
    # The quantiser turns Gemm into MatMul with the weight transposed, and then trips over the old shape noted here.
    del model.graph.value_info[:]
    logger = logging.getLogger()
    advice = logger.disabled
    logger.disabled = True  # It advises a preprocessing that changes nothing in this graph.
    try:
        quantize_dynamic(model, path, op_types_to_quantize=["MatMul"], per_channel=True, weight_type=QuantType.QInt8)
    finally:
        logger.disabled = advice
    model = onnx.load(path)
    _scale_by_row(model)
    onnx.save(model, path)


def _scale_by_row(model: onnx.ModelProto) -> None:
    """Give each row of the linear layers' inputs its own scale; the quantiser gives one to all rows of a step.

    Its `DynamicQuantizeLinear -> MatMulInteger -> Cast -> Mul` becomes a division by the row's largest number, a
    `QuantizeLinear` with fixed scale, an integer product scaled by output, and a multiplication by that number.
    """
    graph, node = model.graph, onnx.helper.make_node
    scale, zero, tiny, last = "row.scale", "row.zero_point", "row.smallest", "row.axis"
    for name, value in (
        (scale, np.float32(1 / 127)),
        (zero, np.uint8(128)),  # x86 has integer kernels for unsigned inputs with signed weights.
        (tiny, np.float32(1e-12)),
        (last, np.array([-1], np.int64)),
    ):
        graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(value), name))
    nodes: list[onnx.NodeProto] = []
    source: dict[str, str] = {}  # Scale of a whole step -> the activation it is of.
    outputs: dict[str, tuple[str, str]] = {}  # Product of two scales -> that activation, and the weights' scales.
    products: dict[str, tuple[str, str]] = {}  # Integer product -> its two factors.
    for old in graph.node:
        inputs = list(old.input)
        if old.op_type == "DynamicQuantizeLinear":
            (x,), (quantised, step_scale, _) = inputs, old.output
            source[step_scale] = x
            nodes += [
                node("Abs", [x], [f"{x}.sizes"]),
                node("ReduceMax", [f"{x}.sizes", last], [f"{x}.size"]),
                node("Max", [f"{x}.size", tiny], [f"{x}.largest"]),
                node("Div", [x, f"{x}.largest"], [f"{x}.unit"]),
                node("QuantizeLinear", [f"{x}.unit", scale, zero], [quantised]),
            ]
        elif old.op_type == "MatMulInteger":
            products[old.output[0]] = inputs[0], inputs[1]
        elif old.op_type == "Cast" and inputs[0] in products:
            products[old.output[0]] = products[inputs[0]]
        elif old.op_type == "Mul" and inputs[0] in source:
            outputs[old.output[0]] = source[inputs[0]], inputs[1]
        elif old.op_type == "Mul" and inputs[0] in products:
            (x, weight_scales), unscaled = outputs[inputs[1]], f"{old.output[0]}.unscaled"
            factors = [*products[inputs[0]], scale, weight_scales, zero]
            nodes += [
                node("MatMulIntegerToFloat", factors, [unscaled], domain="com.microsoft"),
                node("Mul", [unscaled, f"{x}.largest"], list(old.output)),
            ]
        else:
            nodes.append(old)
    used = {name for new in nodes for name in new.input}
    initializers = [tensor for tensor in graph.initializer if tensor.name in used]
    del graph.node[:], graph.initializer[:]
    graph.node.extend(nodes)
    graph.initializer.extend(initializers)
    model.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))


def _quantise_embedding(model: onnx.ModelProto, source: Path) -> None:
    """Replace the lookup of a float row by that of an int8 row times its scale."""
    graph = model.graph
    lookups = [node for node in graph.node if node.op_type == "Gather" and node.input[1] == "tokens"]
    weights = {tensor.name: tensor for tensor in graph.initializer}
    if len(lookups) != 1 or lookups[0].input[0] not in weights:
        raise DrafterCorrupt(f"{source} has no embedding of its tokens. Export the float drafter again.")
    lookup = lookups[0]
    table = onnx.numpy_helper.to_array(weights[lookup.input[0]])
    scales = np.maximum(np.abs(table).max(axis=1, keepdims=True), np.float32(1e-12)) / np.float32(127)
    rows, scale = "embedding.int8", "embedding.scale"
    graph.initializer.remove(weights[lookup.input[0]])
    graph.initializer.append(onnx.numpy_helper.from_array(np.rint(table / scales).astype(np.int8), rows))
    graph.initializer.append(onnx.numpy_helper.from_array(scales.astype(np.float32), scale))
    node = onnx.helper.make_node
    at = list(graph.node).index(lookup)
    graph.node.remove(lookup)
    for new in (
        node("Mul", ["embedding.float", "embedding.scales"], list(lookup.output)),
        node("Gather", [scale, "tokens"], ["embedding.scales"]),
        node("Cast", ["embedding.rows"], ["embedding.float"], to=onnx.TensorProto.FLOAT),
        node("Gather", [rows, "tokens"], ["embedding.rows"]),
    ):
        graph.node.insert(at, new)


# ---- parity ----------------------------------------------------------------------------------------------------------

StepInputs = tuple[NDArray[np.int64], NDArray[np.int64], Floats, Sequence[KeysValues], KeysValues]
"""Arguments of one `StepGraph` call."""


@dataclass(frozen=True)
class Parity:
    """How the quantised graph's proposals differ from the float graph's."""

    rows: int
    """Positions compared."""
    agreement: float
    """Share of them where both find the same token likeliest."""
    mean_difference: float
    largest_difference: float
    """Between the log-probabilities of tokens that both propose, in nats."""

    def __str__(self) -> str:
        return (
            f"top-1 agreement {self.agreement:.1%} over {self.rows} positions; "
            f"log-probabilities differ by {self.mean_difference:.3f} on average, {self.largest_difference:.3f} at most"
        )


def prompt(step: StepGraph, tokens: Sequence[int], memory: KeysValues | None = None) -> StepInputs:
    """Inputs that run `tokens` from the beginning, with dequantised `memory` of some of them or none."""
    count = len(tokens)
    empty = [(np.zeros((heads, 0, size), np.float32),) * 2 for heads, size in step.cache_shapes]
    mask = np.triu(np.full((count, count), NEVER), k=1)
    return np.array(tokens, np.int64), np.arange(count), mask, empty, memory or empty[0]


def compare(exact: StepGraph, quantised: StepGraph, inputs: Iterable[StepInputs]) -> Parity:
    """Run both graphs on the same inputs. Raises `ValueError` where there are none."""
    same, gaps = [], []
    for arguments in inputs:
        one, other = exact(*arguments), quantised(*arguments)
        same.append(one.ids[:, 0] == other.ids[:, 0])
        both = one.ids[:, :, None] == other.ids[:, None, :]
        gaps.append(np.abs(one.log_probs[:, :, None] - other.log_probs[:, None, :])[both])
    if not same:
        raise ValueError("no inputs to compare the graphs on")
    agree, gap = np.concatenate(same), np.concatenate(gaps)
    return Parity(len(agree), float(agree.mean()), float(gap.mean()), float(gap.max()))
