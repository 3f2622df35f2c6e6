"""Writes a target as one ONNX graph, from the float weights of its folder. Needs the `onnx` package, but no PyTorch.

    tokens, cos, sin, rows      N rows of all contexts, one after another, and their rotary positions
    queries, back               where the rows of B contexts lie among the N, padded to n a context; and the way back
    mask, lengths               (B, 1, g*n, C+n) over C cached rows and n new ones; [C, n]
    wanted                      the rows whose logits are wanted
    keys_i, values_i            (B, heads, C, size): cached rows of layer i
    -> logits, new_keys_i, new_values_i                     (wanted, V), (N, heads*size)

Linear layers run over the N rows without padding; only attention is padded. No cached row comes out again.

With 8 bits, each row of a product's input is rounded by itself, and integer sums are exact. A number that differs in
its last bit may still be rounded another way, and the logits differ by as much as 8 bits are coarse. In attention, the
order of a float32 sum depends on where a tree puts a token. So there the sums are float64, and rounded to float32
afterwards: then a token's logits are the same, bit for bit, alone, in a tree and in a batch.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx

from drafter.training.onnx_nodes import Declared, OnnxNodes
from drafter.training.quantise import quantise_graph
from remote.verifier.engine import Floats, UnverifiableTarget
from remote.verifier.engines.onnx_engine import METADATA, GraphShape, graph_inputs, graph_outputs
from remote.verifier.engines.tensors import read_tensors

FAMILIES = ("llama", "mistral", "qwen2", "qwen3")


def write_graph(folder: Path, path: Path, *, int8: bool) -> GraphShape:
    """Write the graph of the model in `folder` to `path`, with weights in 8 bits or float32.

    Raises `UnverifiableTarget`, `DamagedWeights`.
    """
    config = json.loads((folder / "config.json").read_text("utf-8"))
    shape = _shape(config, int8)
    graph = _Graph(shape, read_tensors(folder), float(config.get("rms_norm_eps", 1e-6)))
    if not int8:
        graph.write(path)
        return shape
    with tempfile.TemporaryDirectory() as scratch:
        exact = Path(scratch) / "target.onnx"
        graph.write(exact)
        quantise_graph(exact, path, "int8", exact=True)
    return shape


def _shape(config: Mapping[str, Any], int8: bool) -> GraphShape:
    family, rope = config.get("model_type"), config.get("rope_parameters") or {}
    kinds = set(config.get("layer_types") or ()) - {"full_attention"}
    sliding = config.get("sliding_window") and config.get("use_sliding_window", True)
    kind = rope.get("rope_type", "default")
    for wrong, why in (
        (family not in FAMILIES, f"it is of the family {family}, not of {', '.join(FAMILIES)}"),
        (kinds or sliding, "it has layers with a sliding window"),
        (kind != "default" or config.get("rope_scaling"), f"its rotary positions are scaled ({kind})"),
        (config.get("hidden_act", "silu") != "silu", f"its activation is {config.get('hidden_act')}"),
    ):
        if wrong:
            raise UnverifiableTarget(f"No graph for this model: {why}. Serve it with --engine torch.")
    heads = config["num_attention_heads"]
    return GraphShape(
        layers=config["num_hidden_layers"],
        heads=heads,
        kv_heads=config.get("num_key_value_heads") or heads,
        head_size=config.get("head_dim") or config["hidden_size"] // heads,
        vocabulary=config["vocab_size"],
        theta=float(rope.get("rope_theta", config.get("rope_theta", 10_000.0))),
        int8=int8,
    )


class _Graph:
    """The nodes and weights while they are written."""

    def __init__(self, shape: GraphShape, weights: Mapping[str, Floats], eps: float) -> None:
        self.shape, self.eps = shape, eps
        self._weights = weights
        self._nodes = OnnxNodes()

    def write(self, path: Path) -> None:
        shape, nodes = self.shape, self._nodes
        embedding = self._weights["model.embed_tokens.weight"]
        x = nodes.add("Gather", [nodes.put("embedding", embedding), "tokens"], axis=0)
        for layer in range(shape.layers):
            x = self._layer(x, layer)
        x = self._norm(nodes.add("Gather", [x, "wanted"], axis=0), "model.norm.weight")
        head = self._weights.get("lm_head.weight", embedding)
        nodes.add("MatMul", [x, nodes.put("head", head.T)], "logits")
        outputs: list[Declared] = [(name, onnx.TensorProto.FLOAT, None) for name in graph_outputs(shape)]
        nodes.save(path, "target", _inputs(shape), outputs, {METADATA: msgspec.json.encode(shape).decode()})

    def _layer(self, x: str, layer: int) -> str:
        nodes, shape, name = self._nodes, self.shape, f"model.layers.{layer}"
        query_width, key_width = shape.heads * shape.head_size, shape.kv_heads * shape.head_size
        normed = self._norm(x, f"{name}.input_layernorm.weight")
        parts = [f"{name}.self_attn.{part}_proj" for part in "qkv"]
        qkv = self._linear(normed, parts)
        query, keys, values = nodes.split(qkv, [query_width, key_width, key_width])
        if f"{name}.self_attn.q_norm.weight" in self._weights:
            query = self._head_norm(query, f"{name}.self_attn.q_norm.weight", query_width)
            keys = self._head_norm(keys, f"{name}.self_attn.k_norm.weight", key_width)
        query = self._rotate(query)
        keys = nodes.add("Identity", [self._rotate(keys)], f"new_keys_{layer}")
        values = nodes.add("Identity", [values], f"new_values_{layer}")
        attended = self._attention(query, keys, values, layer)
        x = nodes.add("Add", [x, self._linear(attended, [f"{name}.self_attn.o_proj"])])
        normed = self._norm(x, f"{name}.post_attention_layernorm.weight")
        width = len(self._weights[f"{name}.mlp.gate_proj.weight"])
        both = self._linear(normed, [f"{name}.mlp.gate_proj", f"{name}.mlp.up_proj"])
        gate, up = nodes.split(both, [width, width])
        gate = nodes.silu(gate)
        inner = nodes.add("Mul", [gate, up])
        return nodes.add("Add", [x, self._linear(inner, [f"{name}.mlp.down_proj"])])

    def _attention(self, query: str, keys: str, values: str, layer: int) -> str:
        """Attention of each context over its cached rows and its new ones. Returns (N, heads*size)."""
        nodes, shape = self._nodes, self.shape
        size, kv_heads, group = shape.head_size, shape.kv_heads, shape.heads // shape.kv_heads
        # The queries of a group are rows of one product, so that keys are read once.
        query = nodes.reshape(nodes.add("Gather", [query, "queries"], axis=0), 0, 0, kv_heads, group, size)
        query = nodes.reshape(nodes.add("Transpose", [query], perm=[0, 2, 3, 1, 4]), 0, 0, -1, size)
        new = [nodes.add("Gather", [part, "queries"], axis=0) for part in (keys, values)]
        new = [nodes.reshape(part, 0, 0, kv_heads, size) for part in new]
        new_keys, new_values = (nodes.add("Transpose", [part], perm=[0, 2, 1, 3]) for part in new)
        scores = [nodes.times_transposed(query, part, size**-0.5) for part in (f"keys_{layer}", new_keys)]
        masked = nodes.add("Add", [nodes.add("Concat", scores, axis=-1), "mask"])
        if shape.int8:
            largest = nodes.add("ReduceMax", [masked, nodes.whole(-1)])
            weights = nodes.add("Exp", [nodes.add("Sub", [masked, largest])])
            weights = nodes.add("Cast", [weights], to=onnx.TensorProto.DOUBLE)
            new_values = nodes.add("Cast", [new_values], to=onnx.TensorProto.DOUBLE)
        else:
            weights = nodes.add("Softmax", [masked], axis=-1)
        cached, fresh = nodes.several("Split", [weights, "lengths"], 2, axis=-1)
        mixed = nodes.add("MatMul", [cached, f"values_{layer}"])
        mixed = nodes.add("Add", [mixed, nodes.add("MatMul", [fresh, new_values])])
        if shape.int8:
            total = nodes.add("ReduceSum", [weights, nodes.whole(-1)])
            mixed = nodes.add("Cast", [nodes.add("Div", [mixed, total])], to=onnx.TensorProto.FLOAT)
        mixed = nodes.reshape(mixed, 0, 0, group, -1, size)
        mixed = nodes.add("Transpose", [mixed], perm=[0, 3, 1, 2, 4])
        return nodes.add("Gather", [nodes.reshape(mixed, -1, shape.heads * size), "back"], axis=0)

    def _rotate(self, x: str) -> str:
        nodes = self._nodes
        turned = nodes.rotate(nodes.add("Unsqueeze", [x, nodes.whole(0)]), "rows", "cos", "sin")
        return nodes.add("Squeeze", [turned, nodes.whole(0)])

    def _head_norm(self, x: str, weight: str, width: int) -> str:
        """Norm each head by itself, as Qwen3 does with queries and keys."""
        heads = self._nodes.reshape(x, -1, self.shape.head_size)
        return self._nodes.reshape(self._norm(heads, weight), -1, width)

    def _norm(self, x: str, weight: str) -> str:
        return self._nodes.norm(x, self._nodes.put(weight, self._weights[weight]), self.eps)

    def _linear(self, x: str, names: Sequence[str]) -> str:
        """The linear layers `names` of one input, as one product."""
        matrix = np.concatenate([self._weights[f"{name}.weight"] for name in names]).T
        product = self._nodes.add("MatMul", [x, self._nodes.put(names[0], matrix)])
        biases = [self._weights.get(f"{name}.bias") for name in names]
        if all(bias is None for bias in biases):
            return product
        widths = [len(self._weights[f"{name}.weight"]) for name in names]
        whole = [np.zeros(width, np.float32) if bias is None else bias for bias, width in zip(biases, widths)]
        return self._nodes.add("Add", [product, self._nodes.put(f"{names[0]}.bias", np.concatenate(whole))])


def _inputs(shape: GraphShape) -> list[Declared]:
    whole, real = onnx.TensorProto.INT64, onnx.TensorProto.FLOAT
    sums = onnx.TensorProto.DOUBLE if shape.int8 else real
    half = shape.head_size // 2
    known: dict[str, tuple[int, list[str | int]]] = {
        "tokens": (whole, ["N"]),
        "rows": (whole, [1, "N"]),
        "cos": (real, ["N", half]),
        "sin": (real, ["N", half]),
        "queries": (whole, ["B", "n"]),
        "back": (whole, ["N"]),
        "mask": (real, ["B", 1, "gn", "T"]),
        "lengths": (whole, [2]),
        "wanted": (whole, ["W"]),
    }
    cached: list[str | int] = ["B", shape.kv_heads, "C", shape.head_size]
    return [
        (name, *(known[name] if name in known else (sums if name.startswith("values") else real, cached)))
        for name in graph_inputs(shape)
    ]
