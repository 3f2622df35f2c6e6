"""Writes the step graph of a drafter as ONNX, `StepModule` node for node, and compares a quantised graph with it.

Rotations and masks are computed once for all layers. A token's result must be the same, bit for bit, whatever tokens
run with it. So products of one row or with one key are avoided, because they add in a different order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from torch import nn

from drafter.model.draft_model import DraftModel, Exit, StepModule
from drafter.model.layers import CrossAttentionLayer, Mlp, Norm, SelfAttentionLayer
from drafter.step import Floats, KeysValues, StepGraph, cache_shapes, graph_names
from models.config import Rope
from models.engines.onnx_nodes import Declared, OnnxNodes
from models.tree import NEVER

WHOLE, FLOAT = onnx.TensorProto.INT64, onnx.TensorProto.FLOAT


def export_graph(model: DraftModel, path: Path) -> None:
    """Write the float step graph, in which M, P and T are dynamic. Large weights go into a `*.data` file."""
    _StepGraph(StepModule(model).eval()).write(path)


class _StepGraph:
    """A step graph under construction. Values have the shape (M, width) unless stated otherwise."""

    def __init__(self, step: StepModule) -> None:
        self._step, self._model, self._config = step, step.model, step.model.config
        self._names = {id(module): f"model.{name}" for name, module in step.model.named_modules()}
        self._nodes = OnnxNodes()

    def write(self, path: Path) -> None:
        nodes, model, config = self._nodes, self._model, self._config
        inputs, outputs = graph_names(config)
        cached = [name for name in inputs if name.startswith(("first_", "self_", "last_"))]
        x = nodes.add("Gather", [self._weight(model.embedding), "tokens"], axis=0)
        self._positions(config.rope)
        self._masks({config.heads // config.kv_heads, config.target_heads // config.target_kv_heads})
        for at, layer in enumerate([*model.first_layers, *model.self_attention, *model.target_layers]):
            if at == config.first_layers + config.blocks:
                x = self._cross_attention(x, model.cross_attention)
            x = self._self_attention(x, layer, cached[2 * at : 2 * at + 2])
        if not model.target_layers:
            x = self._cross_attention(x, model.cross_attention)
        x = self._norm(x, model.norm) if isinstance(model.norm, Norm) else x
        logits = nodes.add("Gemm", [x, nodes.put("head.weight", self._step.head.weight.detach().numpy())], transB=1)
        if config.correctable:
            states = nodes.add("Identity", [x], "states")
            # A product of one row adds in another order than that of several, so the rows are duplicated.
            twice = nodes.add("Concat", [states, states], axis=0)
            added = nodes.add("MatMul", [nodes.add("MatMul", [twice, "down"]), "up"])
            added = nodes.add("Slice", [added, nodes.whole(0), nodes.add("Shape", ["tokens"]), nodes.whole(0)])
            logits = nodes.add("Add", [logits, added])
        whole = nodes.add("LogSoftmax", [logits], axis=-1)
        _, best = nodes.several("TopK", [whole, nodes.whole(self._step.top)], 2, ["log_probs", "best"], axis=-1)
        nodes.add("Gather", [nodes.put("kept", self._step.kept.numpy()), best], "ids", axis=0)
        shapes = [(config.kv_heads, "T", config.head_size)]
        shapes += [(heads, "P", size) for heads, size in cache_shapes(config)]
        rows = [shape for shape in shapes for _ in ("keys", "values")]
        free: dict[str, Sequence[str | int]] = {
            "tokens": ("M",),
            "positions": ("M",),
            "mask": ("M", "P+M"),
            "down": (config.hidden, "R"),
            "up": ("R", len(self._step.kept)),
            **dict(zip(inputs[3:], rows)),
        }
        taken: list[Declared] = [
            (name, WHOLE if name in ("tokens", "positions") else FLOAT, free[name]) for name in inputs
        ]
        given: list[Declared] = [(name, WHOLE if name == "ids" else FLOAT, None) for name in outputs]
        nodes.save(path, "step", taken, given)

    def _positions(self, rope: Rope) -> None:
        """The cosine and the sine of each token's position, (M, size/2), and their row indices."""
        nodes, half = self._nodes, self._config.head_size // 2
        frequencies = np.array(rope.frequencies, np.float32)
        if not len(frequencies):
            frequencies = np.float32(rope.theta) ** (-np.arange(half, dtype=np.float32) / np.float32(half))
        angles = nodes.add("Unsqueeze", [nodes.add("Cast", ["positions"], to=FLOAT), nodes.whole(1)])
        angles = nodes.add("Mul", [angles, nodes.put("frequencies", frequencies)])
        self._turns = [nodes.add(kind, [angles]) for kind in ("Cos", "Sin")]
        if rope.scale != 1.0:
            scale = nodes.put("scale", np.array(rope.scale, np.float32))
            self._turns = [nodes.add("Mul", [turn, scale]) for turn in self._turns]
        ends = nodes.add("Squeeze", [nodes.add("Shape", ["tokens"])])
        rows = nodes.add("Range", [nodes.put("zero", np.array(0)), ends, nodes.put("one", np.array(1))])
        self._rows = nodes.add("Unsqueeze", [rows, nodes.whole(0)])

    def _masks(self, groups: set[int]) -> None:
        """The mask for this many queries of each token, stacked: (1, groups*M, P+M)."""
        nodes = self._nodes
        once = nodes.add("Unsqueeze", ["mask", nodes.whole(0)])
        self._mask = {count: nodes.add("Concat", [once] * count, axis=1) if count > 1 else once for count in groups}

    def _self_attention(self, x: str, layer: nn.Module, past: Sequence[str]) -> str:
        assert isinstance(layer, SelfAttentionLayer)
        nodes, attention = self._nodes, layer.self_attn
        normed = self._norm(x, layer.input_layernorm)
        query, keys, values = (self._linear(normed, attention[f"{part}_proj"]) for part in "qkv")
        if layer.qk_norm:
            query = self._head_norm(query, attention["q_norm"], layer.head_size)
            keys = self._head_norm(keys, attention["k_norm"], layer.head_size)
        keys = self._of_heads(self._rotate(keys), layer.kv_heads, layer.head_size, f"new_{past[0]}")
        values = self._of_heads(values, layer.kv_heads, layer.head_size, f"new_{past[1]}")
        seen = [nodes.add("Concat", parts, axis=1) for parts in ((past[0], keys), (past[1], values))]
        shape = layer.kv_heads, layer.heads // layer.kv_heads, layer.head_size
        mixed = self._attend(self._rotate(query), seen, shape, self._mask[shape[1]])
        x = nodes.add("Add", [x, self._linear(mixed, attention["o_proj"])])
        return self._mlp(x, layer.post_attention_layernorm, layer.mlp)

    def _cross_attention(self, x: str, layer: CrossAttentionLayer) -> str:
        nodes, size, (kv_heads, _, _) = self._nodes, layer.head_size, layer.null_key.shape
        query = self._linear(self._norm(x, layer.input_layernorm), layer.q_proj)
        if isinstance(layer.q_norm, Norm):
            query = self._head_norm(query, layer.q_norm, size)
        rows = {"null_key": layer.null_key, "null_value": layer.null_value}
        seen = [nodes.put(name, row.detach().numpy()) for name, row in rows.items()]
        seen = [nodes.add("Concat", parts, axis=1) for parts in zip(seen, ("memory_keys", "memory_values"))]
        mixed = self._attend(self._rotate(query), seen, (kv_heads, layer.heads // kv_heads, size), None)
        x = self._mlp(
            nodes.add("Add", [x, self._linear(mixed, layer.o_proj)]), layer.post_attention_layernorm, layer.mlp
        )
        leave = self._model.exit
        if isinstance(leave, Exit):
            shift = nodes.put(f"{self._names[id(leave)]}.shift", leave.shift.detach().numpy())
            x = nodes.add("Add", [self._norm(x, leave.norm), shift])
        return x

    def _attend(self, query: str, seen: Sequence[str], shape: tuple[int, int, int], mask: str | None) -> str:
        """Attention over keys and values (kv_heads, rows, size). `shape`: kv_heads, queries that share one, size."""
        nodes, (keys, values), (kv_heads, group, size) = self._nodes, seen, shape
        # The queries of a group are rows of one product, so that keys are read once.
        query = nodes.reshape(query, -1, kv_heads, group, size)
        query = nodes.reshape(nodes.add("Transpose", [query], perm=[1, 2, 0, 3]), kv_heads, -1, size)
        scores = nodes.times_transposed(query, keys, size**-0.5)
        scores = nodes.add("Add", [scores, mask]) if mask else scores
        mixed = nodes.add("MatMul", [nodes.add("Softmax", [scores], axis=-1), values])
        mixed = nodes.add("Transpose", [nodes.reshape(mixed, kv_heads, group, -1, size)], perm=[2, 0, 1, 3])
        return nodes.reshape(mixed, -1, kv_heads * group * size)

    def _mlp(self, x: str, norm: Norm, mlp: Mlp) -> str:
        nodes, normed = self._nodes, self._norm(x, norm)
        gate = nodes.silu(self._linear(normed, mlp.gate_proj))
        inner = nodes.add("Mul", [gate, self._linear(normed, mlp.up_proj)])
        return nodes.add("Add", [x, self._linear(inner, mlp.down_proj)])

    def _rotate(self, x: str) -> str:
        """(1, M, width)"""
        nodes = self._nodes
        return nodes.rotate(nodes.add("Unsqueeze", [x, nodes.whole(0)]), self._rows, *self._turns)

    def _of_heads(self, x: str, heads: int, size: int, output: str) -> str:
        """(heads, M, size)"""
        return self._nodes.add("Transpose", [self._nodes.reshape(x, -1, heads, size)], output, perm=[1, 0, 2])

    def _head_norm(self, x: str, norm: nn.Module, size: int) -> str:
        assert isinstance(norm, Norm)
        heads = self._nodes.reshape(x, -1, size)
        return self._nodes.add("Reshape", [self._norm(heads, norm), self._nodes.add("Shape", [x])])

    def _norm(self, x: str, norm: Norm) -> str:
        return self._nodes.norm(x, self._weight(norm), norm.eps)

    def _linear(self, x: str, layer: nn.Module) -> str:
        assert isinstance(layer, nn.Linear)
        name, bias = self._names[id(layer)], list[str]()
        weight = self._nodes.put(f"{name}.weight", layer.weight.detach().numpy())
        if layer.bias is not None:
            bias = [self._nodes.put(f"{name}.bias", layer.bias.detach().numpy())]
        return self._nodes.add("Gemm", [x, weight, *bias], transB=1)

    def _weight(self, module: nn.Module) -> str:
        weight = module.weight
        assert isinstance(weight, nn.Parameter)
        return self._nodes.put(f"{self._names[id(module)]}.weight", weight.detach().numpy())


StepInputs = tuple[NDArray[np.int64], NDArray[np.int64], Floats, Sequence[KeysValues], KeysValues]
"""The arguments of one `StepGraph` call."""


@dataclass(frozen=True)
class Parity:
    """The differences between the proposals of the quantised and the float graph."""

    rows: int
    """Positions that were compared."""
    agreement: float
    """Share of positions at which both have the same likeliest token."""
    mean_difference: float
    largest_difference: float
    """Largest difference between the log-probabilities of tokens that both propose, in nats (the mean is
    `mean_difference`)."""

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
    """Run both graphs on the same inputs and compare them. Raises `ValueError` if there are no inputs."""
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
