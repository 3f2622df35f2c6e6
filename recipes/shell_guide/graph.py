"""Write the bundled target as a graph for ONNX Runtime, with weights in 8 bits.

    python -m recipes.shell_guide.graph --target DIR --out FOLDER [--float32]

`DIR` has the target as transformers saves it. `FOLDER` gets its configuration, its text side and the graph,
target.onnx: with weights in float32, or in 4 bits next to it (`models/packed.py`), which the graph multiplies by as
exact 8-bit numbers. A server then uses it instead of PyTorch. Writing needs no PyTorch. The graph:

    tokens, cos, sin            N rows of all contexts, one after another, and the angles of their rotary positions,
                                which are at least n
    queries, back               where the rows of B contexts lie among the N, padded to n a context; and the way back
    mask, lengths               (B, 1, g*n, C+n) over C cached rows and n new ones; [C, n]
    wanted                      the rows whose logits are wanted
    keys_i, values_i            (B, heads, C, size): cached rows of layer i
    -> logits, new_keys_i, new_values_i                     (wanted, V), (B, heads, n, size)

Linear layers run over the N rows without padding; only attention is padded. Cached rows are not output again. With few
rows, the overhead of a node counts as much as the products, so there are few nodes: queries, keys and values are
reshaped and rotated together.

With 8 bits, each row of a product's input is quantised separately, and integer sums are exact. But a number that
differs in its last bit may be rounded differently, which changes the logits by a whole 8-bit step. In attention, the
order of a float32 sum depends on where a tree puts a token. So there the sums are float64, then rounded to float32,
which makes a token's logits the same, bit for bit, alone, in a tree and in a batch.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
from safetensors.numpy import save

from models.config import TEMPLATE, TOKENIZER
from models.engines.engine import UnverifiableTarget
from models.engines.onnx_engine import METADATA, GraphShape, graph_inputs, graph_outputs
from models.engines.onnx_nodes import MICROSOFT, Declared, OnnxNodes
from models.files import PACKED, TARGET_GRAPH, graph_bytes
from models.graph_file import SIGNED
from models.packed import Weight, array_of, flat, quantised, read_packed
from models.tensors import read_tensors
from models.text.text_side import CONFIG, GENERATION, TOKENIZER_CONFIG

EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"
FAMILIES = ("llama", "mistral", "qwen2", "qwen3")


def write_graph(folder: Path, path: Path, *, int8: bool) -> GraphShape:
    """Write the graph of the model in `folder` to `path`: with its weights in float32, or for packed ones next to it.

    Raises `UnverifiableTarget`, `DamagedWeights`.
    """
    config = json.loads((folder / CONFIG).read_text("utf-8"))
    shape = _shape(config, int8)
    weights: Mapping[str, Weight]
    if (folder / PACKED).exists():
        weights = read_packed(folder / PACKED)
    elif int8:
        weights = quantised(read_tensors(folder), (EMBEDDING, HEAD))
    else:
        weights = read_tensors(folder)
    if int8:
        path.with_name(PACKED).write_bytes(save(flat(weights)))
    _Graph(shape, weights, float(config.get("rms_norm_eps", 1e-6))).write(path)
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
    """The nodes and weights of a graph under construction."""

    def __init__(self, shape: GraphShape, weights: Mapping[str, Weight], eps: float) -> None:
        self.shape, self.eps = shape, eps
        self._weights = weights
        self._nodes = OnnxNodes()

    def write(self, path: Path) -> None:
        shape, nodes = self.shape, self._nodes
        x = self._embedding()
        normed = nodes.norm(x, self._weight("model.layers.0.input_layernorm.weight"), self.eps)
        for layer in range(shape.layers):
            x, normed = self._layer(x, normed, layer)
        # The last norm is of the wanted rows only.
        normed = nodes.norm(nodes.add("Gather", [x, "wanted"], axis=0), self._weight("model.norm.weight"), self.eps)
        self._product(normed, HEAD if HEAD in self._weights else EMBEDDING, "logits")
        outputs: list[Declared] = [(name, onnx.TensorProto.FLOAT, None) for name in graph_outputs(shape)]
        nodes.save(path, "target", _inputs(shape), outputs, {METADATA: msgspec.json.encode(shape).decode()})

    def _layer(self, x: str, normed: str, layer: int) -> tuple[str, str]:
        """One layer: its input and the norm of it; returns those of the next layer, (N, hidden)."""
        nodes, name = self._nodes, f"model.layers.{layer}"
        qkv = self._linear(normed, [f"{name}.self_attn.{part}_proj" for part in "qkv"])
        attended = self._linear(self._attention(*self._heads(qkv, layer), layer), [f"{name}.self_attn.o_proj"])
        x, normed = nodes.add_and_norm(x, attended, self._weight(f"{name}.post_attention_layernorm.weight"), self.eps)
        width = self._weights[f"{name}.mlp.gate_proj.weight"].shape[0]
        both = self._linear(normed, [f"{name}.mlp.gate_proj", f"{name}.mlp.up_proj"])
        gate, up = nodes.split(both, [width, width])
        inner = self._linear(nodes.add("Mul", [nodes.silu(gate), up]), [f"{name}.mlp.down_proj"])
        if layer + 1 == self.shape.layers:
            return nodes.add("Add", [x, inner]), ""
        following = self._weight(f"model.layers.{layer + 1}.input_layernorm.weight")
        return nodes.add_and_norm(x, inner, following, self.eps)

    def _heads(self, qkv: str, layer: int) -> tuple[str, str, str]:
        """Queries, keys and values of each context, rotated: (B, heads, n, size), from (N, all heads * size)."""
        nodes, shape, name = self._nodes, self.shape, f"model.layers.{layer}.self_attn"
        heads, kv_heads = shape.heads, shape.kv_heads
        padded = nodes.add("Gather", [qkv, "queries"], axis=0)
        padded = nodes.reshape(padded, 0, 0, heads + 2 * kv_heads, shape.head_size)
        apart = nodes.add("Transpose", [padded], perm=[0, 2, 1, 3])
        new_keys, new_values = f"new_keys_{layer}", f"new_values_{layer}"
        if f"{name}.q_norm.weight" in self._weights:  # Qwen 3 norms each head of queries and keys separately.
            query, keys, values = nodes.split(apart, [heads, kv_heads, kv_heads], 1, ["", "", new_values])
            query = nodes.norm(query, self._weight(f"{name}.q_norm.weight"), self.eps)
            keys = nodes.norm(keys, self._weight(f"{name}.k_norm.weight"), self.eps)
            return self._turn(query), self._turn(keys, new_keys), values
        both, values = nodes.split(apart, [heads + kv_heads, kv_heads], 1, ["", new_values])
        query, keys = nodes.split(self._turn(both), [heads, kv_heads], 1, ["", new_keys])
        return query, keys, values

    def _turn(self, x: str, output: str | None = None) -> str:
        """Rotate heads, (B, heads, n, size), by their rows' positions."""
        return self._nodes.rotate(x, "queries", "cos", "sin", output)

    def _attention(self, query: str, keys: str, values: str, layer: int) -> str:
        """Attention of each context over its cached rows and its new ones. Returns (N, heads*size)."""
        nodes, shape = self._nodes, self.shape
        size, kv_heads = shape.head_size, shape.kv_heads
        # The queries of a group are rows of one product, so that keys are read once.
        query = nodes.reshape(query, 0, kv_heads, -1, size)
        scores = [nodes.times_transposed(query, part, size**-0.5) for part in (f"keys_{layer}", keys)]
        masked = nodes.add("Add", [nodes.add("Concat", scores, axis=-1), "mask"])
        if shape.int8:
            largest = nodes.add("ReduceMax", [masked, nodes.whole(-1)])
            weights = nodes.add("Exp", [nodes.add("Sub", [masked, largest])])
            weights = nodes.add("Cast", [weights], to=onnx.TensorProto.DOUBLE)
            values = nodes.add("Cast", [values], to=onnx.TensorProto.DOUBLE)
        else:
            weights = nodes.add("Softmax", [masked], axis=-1)
        cached, fresh = nodes.several("Split", [weights, "lengths"], 2, axis=-1)
        mixed = nodes.add("MatMul", [cached, f"values_{layer}"])
        mixed = nodes.add("Add", [mixed, nodes.add("MatMul", [fresh, values])])
        if shape.int8:
            total = nodes.add("ReduceSum", [weights, nodes.whole(-1)])
            mixed = nodes.add("Cast", [nodes.add("Div", [mixed, total])], to=onnx.TensorProto.FLOAT)
        mixed = nodes.reshape(mixed, 0, shape.heads, -1, size)
        mixed = nodes.add("Transpose", [mixed], perm=[0, 2, 1, 3])
        return nodes.add("Gather", [nodes.reshape(mixed, -1, shape.heads * size), "back"], axis=0)

    def _weight(self, name: str) -> str:
        array = array_of(self._weights, name)
        return self._nodes.leave_out(name, array) if self.shape.int8 else self._nodes.put(name, array)

    def _embedding(self) -> str:
        nodes = self._nodes
        if not self.shape.int8:
            return nodes.add("Gather", [self._weight(EMBEDDING), "tokens"])
        rows = nodes.add("Gather", [self._weight(f"{EMBEDDING}.rows"), "tokens"])
        scales = nodes.add("Gather", [self._weight(f"{EMBEDDING}.row_scales"), "tokens"])
        return nodes.add("Mul", [nodes.add("Cast", [rows], to=onnx.TensorProto.FLOAT), scales])

    def _linear(self, x: str, names: Sequence[str]) -> str:
        """The linear layers `names` of one input, as one product."""
        product = self._product(x, "+".join(f"{name}.weight" for name in names))
        biases = [f"{name}.bias" for name in names]
        if not any(bias in self._weights for bias in biases):
            return product
        return self._nodes.add("Add", [product, self._weight("+".join(biases))])

    def _product(self, x: str, name: str, output: str | None = None) -> str:
        """The product of `x` and the transpose of a matrix, or of several side by side."""
        nodes = self._nodes
        if not self.shape.int8:
            parts = [array_of(self._weights, part) for part in name.split("+")]
            return nodes.add("MatMul", [x, nodes.put(f"{name} transposed", np.concatenate(parts).T)], output)
        largest = nodes.add("ReduceMax", [nodes.add("Abs", [x]), nodes.whole(-1)])
        # In a row of zeros this is 0 / 0, which becomes an arbitrary 8-bit number, but is finally multiplied by 0.
        unit = nodes.add("Div", [x, largest])
        scale, middle = nodes.put("row.scale", np.float32(1 / 127)), nodes.put("row.zero_point", np.uint8(128))
        numbers = nodes.add("QuantizeLinear", [unit, scale, middle])
        zero = nodes.put(f"weight.zero{SIGNED}", np.int8(0))
        factors = [numbers, self._weight(name + SIGNED), scale, self._weight(f"{name}.scales"), middle, zero]
        return nodes.add("Mul", [nodes.add("MatMulIntegerToFloat", factors, domain=MICROSOFT), largest], output)


def _inputs(shape: GraphShape) -> list[Declared]:
    whole, real = onnx.TensorProto.INT64, onnx.TensorProto.FLOAT
    sums = onnx.TensorProto.DOUBLE if shape.int8 else real
    half = shape.head_size // 2
    known: dict[str, tuple[int, list[str | int]]] = {
        "tokens": (whole, ["N"]),
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--float32", action="store_true")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name in (CONFIG, GENERATION, TOKENIZER, TOKENIZER_CONFIG, TEMPLATE):
        if (arguments.target / name).exists():
            shutil.copyfile(arguments.target / name, arguments.out / name)
    path = arguments.out / TARGET_GRAPH
    write_graph(arguments.target, path, int8=not arguments.float32)
    print(f"{path}: {graph_bytes(path) / 1e6:.1f} MB with its weights")


if __name__ == "__main__":
    main()
