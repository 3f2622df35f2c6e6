"""Reads the weights of a quantised step graph back as floats, and writes learnt ones into a copy of it.

A device that fetched a drafter has its graph and no other weights, so training there starts from the graph. A written
matrix keeps its format: `int8`, `nbits8` or `nbits4` (`models/engines/quantise.py`). All others stay unchanged, bit for
bit. Needs the `onnx` package.

4-bit matrices are trained with rounding: the forward pass uses the rounded weights, and the gradient bypasses the
rounding and updates the exact ones (a straight-through estimator, arXiv 1308.3432). Rounding only after training would
undo a part of what was learnt: with 512 answers, 2.88 tokens per round are left instead of 2.96.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils import parametrize

from drafter.model.weights import weights_in_graph
from drafter.step import Floats
from models.config import DrafterConfig, DrafterCorrupt
from models.engines.quantise import BLOCK, in_blocks, symmetric
from models.graph_file import weights_inside
from models.packed import Packed, flat, in_rows, pack

INT8, SCALES = ".int8", ".scales"
FORMS = (INT8, ".nbits8", ".nbits4")
BITS = 4
"""With 8 bits, rounding has no measurable cost."""
ORIGINAL = "parametrizations.weight.original"


def read_weights(path: Path, config: DrafterConfig) -> dict[str, Floats]:
    """The weights of a graph, by the names of a draft model's parameters. Its head has a row for each token that it can
    draft.

    Matrices are (outputs, inputs). Raises `DrafterCorrupt`.
    """
    if packed := weights_in_graph(path):
        return packed
    stored = {tensor.name: tensor for tensor in _load(path).graph.initializer}

    def take(name: str) -> NDArray[Any]:
        return np.asarray(onnx.numpy_helper.to_array(stored[name]))

    try:
        weights = {"embedding.weight": take("embedding.int8") * take("embedding.scale")}
        for name in stored:
            own = name.removeprefix("model.")
            matrix = next((own.removesuffix(form) for form in FORMS if own.endswith(form)), None)
            if matrix is not None and matrix != "embedding":
                scales = take(name.rpartition(".")[0] + SCALES)
                weights[matrix] = _dequantised(name, take(name), scales)
            elif own.endswith((".weight", ".bias")):
                weights[own] = take(name)
        # Traced graphs have other names for the two rows without memory, in the order of use.
        shape = (config.kv_heads, 1, config.head_size)
        empty = [name for name, tensor in stored.items() if tuple(tensor.dims) == shape and "." not in name]
        for row, name in zip(("null_key", "null_value"), empty, strict=True):
            weights[f"cross_attention.{row}"] = take(name)
    except (KeyError, ValueError) as error:
        raise DrafterCorrupt(f"{path} is not the graph that its config describes ({error}).") from None
    return {name: np.array(weight, np.float32) for name, weight in weights.items()}


def matrices_in_blocks(path: Path) -> set[str]:
    """Names of the matrices that a graph holds in blocks of `BITS` bits. Raises `DrafterCorrupt`."""
    ending, names = f".nbits{BITS}", (tensor.name for tensor in _load(path).graph.initializer)
    return {name.removeprefix("model.").removesuffix(ending) for name in names if name.endswith(ending)}


def write_weights(source: Path, out: Path, weights: Mapping[str, Floats]) -> None:
    """Write a copy of the graph `source`, with other weights for the named parameters. Raises `DrafterCorrupt`."""
    model, written = _load(source), set[str]()
    stored = {tensor.name: tensor for tensor in model.graph.initializer}

    def put(name: str, numbers: NDArray[Any]) -> None:
        new = onnx.numpy_helper.from_array(np.ascontiguousarray(numbers), name)
        if list(new.dims) != list(stored[name].dims) or new.data_type != stored[name].data_type:
            raise DrafterCorrupt(f"{source} has a weight {name} of another form.")
        stored[name].CopyFrom(new)

    for name, weight in weights_inside(source).items():
        own = name.removeprefix("model.")
        if own in weights and not isinstance(weight, np.ndarray):
            value = np.asarray(weights[own], np.float32)
            for tensor, array in flat({name: pack(value) if isinstance(weight, Packed) else in_rows(value)}).items():
                put(tensor, array)
            written.add(own)
    for name in list(stored):
        own = name.removeprefix("model.")
        matrix = next((own.removesuffix(form) for form in FORMS if own.endswith(form)), own)
        if matrix not in weights or matrix in written:
            continue
        written.add(matrix)
        value = np.asarray(weights[matrix], np.float32)
        if name.endswith(INT8):
            numbers, scales = symmetric(np.ascontiguousarray(value.T), axis=0)
            put(name, numbers)
            put(name.removesuffix(INT8) + SCALES, scales[0])
        elif matrix != own:
            packed, factors = in_blocks(np.ascontiguousarray(value.T), 4 if name.endswith("4") else 8)
            put(name, packed)
            put(name.rpartition(".")[0] + SCALES, factors)
        else:
            put(name, value)
    if missing := set(weights) - written:
        raise DrafterCorrupt(f"{source} has no weights for {', '.join(sorted(missing))}.")
    onnx.save(model, out)


def _load(path: Path) -> onnx.ModelProto:
    try:
        return onnx.load(path, load_external_data=not weights_inside(path))
    except Exception as error:  # onnx raises protobuf's errors, which have no public class.
        raise DrafterCorrupt(f"{path} is not an ONNX graph ({error}).") from None


def _dequantised(name: str, numbers: NDArray[Any], scales: Floats) -> Floats:
    """(outputs, inputs) of a quantised matrix. The padding inputs of the last block are included, and are zero."""
    if name.endswith(INT8):
        floats: Floats = (numbers * scales).T.astype(np.float32)
        return floats
    bits = 4 if name.endswith("4") else 8
    if bits == 4:
        numbers = np.stack((numbers & 15, numbers >> 4), axis=-1).reshape(*numbers.shape[:2], BLOCK[4])
    whole = (numbers.astype(np.float32) - (1 << (bits - 1))) * scales[..., None]
    return whole.reshape(len(whole), -1)


class Rounded(nn.Module):
    """A matrix (outputs, inputs) rounded to 4 bits."""

    def forward(self, weight: Tensor) -> Tensor:
        half, width = 1 << (BITS - 1), weight.shape[1]
        rows = nn.functional.pad(weight, (0, -width % BLOCK[BITS])).reshape(len(weight), -1, BLOCK[BITS])
        # The largest number of a block becomes the lowest integer, as in `in_blocks`.
        scales = -rows.gather(-1, rows.abs().argmax(dim=-1, keepdim=True)) / half
        scales = torch.where(scales == 0, 1.0, scales)
        rounded = (rows / scales).round().clamp(-half, half - 1) * scales
        straight: Tensor = weight + (rounded.flatten(1)[:, :width] - weight).detach()
        return straight


def round_weights(model: nn.Module, names: Collection[str]) -> dict[str, str]:
    """Make the linear layers with these weights compute with rounded ones.

    Returns each weight's name by the name of the parameter that is trained for it.
    """
    renamed = {}
    for name, layer in model.named_modules():
        if isinstance(layer, nn.Linear) and f"{name}.weight" in names:
            parametrize.register_parametrization(layer, "weight", Rounded())
            renamed[f"{name}.{ORIGINAL}"] = f"{name}.weight"
    return renamed
