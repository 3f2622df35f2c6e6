"""Weights in 4 bits on disk, which are exact 8-bit numbers in memory. Numpy only.

    W = scale[output] * factor[output, input / 32] * q[output, input]

The factor of a block of 32 inputs is an integer from 1 to 15, q one from -8 to 7. Their product fits into 8 bits. So
the integer kernels, which take one scale per output, multiply by exactly what was stored. A file is in the safetensors
format. Under the name of a parameter it has float32 numbers; or with these endings, which are the fields of `Packed`
and `Rows`:

    .int4 .factors .scales      a packed matrix
    .int8 .scales               8 bits with one scale for each row: an embedding, or inputs not in blocks of 32

In memory and in the file, matrices are transposed, (inputs, outputs), as the kernels want them.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.tensors import DamagedWeights, read_tensors

BLOCK = 32
"""Inputs that share a factor."""
LARGEST, MOST = 7, 15
"""The largest q and the largest factor."""
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Packed:
    """A matrix in 4 bits."""

    int4: NDArray[np.uint8]
    """(inputs / 32, 16, outputs): of each block the first 16 inputs in the lower halves, the others in the upper."""
    factors: NDArray[np.uint8]
    """Two in a byte: (inputs / 32, outputs) flattened, the first half of them in the lower halves."""
    scales: Floats
    """(outputs,)"""

    @property
    def shape(self) -> tuple[int, int]:
        """(outputs, inputs)"""
        blocks, _, outputs = self.int4.shape
        return outputs, blocks * BLOCK

    def write(self, out: NDArray[np.int8]) -> None:
        """Write the 8-bit numbers, (inputs, outputs)."""
        blocks, half, outputs = self.int4.shape
        factors = np.concatenate((self.factors & MOST, self.factors >> 4))[: blocks * outputs]
        numbers, pairs = out.reshape(blocks, BLOCK, outputs), self.int4.view(np.int8)
        np.left_shift(pairs, 4, out=numbers[:, :half])
        np.right_shift(numbers[:, :half], 4, out=numbers[:, :half])  # Copies the sign.
        np.right_shift(pairs, 4, out=numbers[:, half:])
        numbers *= factors.view(np.int8).reshape(blocks, 1, outputs)

    def int8(self) -> tuple[NDArray[np.int8], Floats]:
        """The 8-bit numbers (outputs, inputs), and the scale of each output."""
        numbers = np.empty(self.shape[::-1], np.int8)
        self.write(numbers)
        return numbers.T, self.scales


@dataclass(frozen=True)
class Rows:
    """A matrix in 8 bits, (outputs, inputs), with one scale for each output or token."""

    numbers: NDArray[np.int8]
    scales: Floats

    @property
    def shape(self) -> tuple[int, int]:
        outputs, inputs = self.numbers.shape
        return outputs, inputs

    def write(self, out: NDArray[np.int8]) -> None:
        """Write the numbers, (inputs, outputs)."""
        out[...] = self.numbers.T

    def int8(self) -> tuple[NDArray[np.int8], Floats]:
        return self.numbers, self.scales


Weight = Packed | Rows | Floats
FIELDS = (".int4", ".factors", ".int8", ".scales")
"""Endings of the tensors of a quantised matrix."""
ENDINGS = ("signed", "columns", "scales", "rows", "row_scales")
"""Of a graph's weights; see `array_of`."""


def pack(matrix: Floats) -> Packed:
    """Quantise a matrix (outputs, inputs), whose inputs are a multiple of 32.

    Training with rounding computes the same numbers, so the order of the operations in float32 matters.
    """
    outputs, inputs = matrix.shape
    blocks = np.asarray(matrix, np.float32).reshape(outputs, inputs // BLOCK, BLOCK)
    sizes = np.abs(blocks).max(axis=-1) / np.float32(LARGEST)
    scales = sizes.max(axis=-1) / np.float32(MOST)
    scales[scales == 0] = 1
    factors = np.clip(np.rint(sizes / scales[:, None]), 1, MOST)
    numbers = np.clip(np.rint(blocks / (scales[:, None] * factors)[..., None]), -LARGEST - 1, LARGEST)
    bits = numbers.astype(np.int8).view(np.uint8).transpose(1, 2, 0)
    first, second = np.split(bits, 2, axis=1)
    flat = factors.astype(np.uint8).T.reshape(-1)
    flat = np.pad(flat, (0, len(flat) % 2))
    lower, upper = np.split(flat, 2)
    return Packed(np.ascontiguousarray(first & MOST | second << 4), lower | upper << 4, scales)


def in_rows(matrix: Floats) -> Rows:
    """Quantise a matrix (outputs, inputs) to 8 bits."""
    largest = np.abs(matrix).max(axis=1)
    scales = (np.maximum(largest, np.float32(1e-12)) / np.float32(127)).astype(np.float32)
    return Rows(np.rint(matrix / scales[:, None]).astype(np.int8), scales)


def quantised(weights: Mapping[str, Floats], tables: tuple[str, ...]) -> dict[str, Weight]:
    """The weights of a model, quantised: all matrices in 4 bits where possible, those named in `tables` in 8."""

    def of(name: str, weight: Floats) -> Weight:
        if weight.ndim != 2:
            return weight
        return in_rows(weight) if name in tables or weight.shape[1] % BLOCK else pack(weight)

    return {name: of(name, weight) for name, weight in weights.items()}


def flat(weights: Mapping[str, Weight]) -> dict[str, NDArray[Any]]:
    """The tensors of a file, by their names."""
    tensors = dict[str, NDArray[Any]]()
    for name, weight in weights.items():
        match weight:
            case Packed(int4, factors, scales):
                tensors |= {f"{name}.int4": int4, f"{name}.factors": factors, f"{name}.scales": scales}
            case Rows(numbers, scales):
                tensors |= {f"{name}.int8": numbers, f"{name}.scales": scales}
            case _:
                tensors[name] = weight
    return tensors


def array_of(weights: Mapping[str, Weight], name: str) -> NDArray[Any]:
    """A weight of a graph, by its name there: parameters joined by "+" and an ending. Raises `KeyError`.

    Outputs of several parameters, which have the same inputs, are put side by side.

        .signed .columns    8-bit numbers (inputs, outputs); see `models/graph_file.py`
        .scales             of outputs, (outputs,)
        .rows               8-bit numbers (tokens, size)
        .row_scales         of tokens, (tokens, 1)
        otherwise           float32, as it is stored
    """
    own, _, ending = name.rpartition(".")
    parts = [weights[part] for part in (own if ending in ENDINGS else name).split("+")]
    if ending not in ENDINGS:
        arrays = [floats(part) for part in parts]
        return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
    matrices = [part for part in parts if not isinstance(part, np.ndarray)]
    if len(matrices) < len(parts):
        raise KeyError(name)
    if ending == "scales":
        return np.concatenate([matrix.scales for matrix in matrices])
    if ending == "row_scales":
        return matrices[0].scales[:, None]
    if ending == "rows":
        numbers = matrices[0].int8()[0]
        rows = _room(*numbers.shape)
        rows[...] = numbers
        return rows
    ends = np.cumsum([matrix.shape[0] for matrix in matrices]).tolist()
    whole = _room(matrices[0].shape[1], ends[-1])
    for matrix, end in zip(matrices, ends):
        matrix.write(whole[:, end - matrix.shape[0] : end])
    return whole


def floats(weight: Weight) -> Floats:
    """A weight in float32, its outputs first."""
    if isinstance(weight, np.ndarray):
        return weight
    numbers, scales = weight.int8()
    found: Floats = numbers * scales[:, None]
    return found


def _room(*shape: int) -> NDArray[np.int8]:
    """An array in its own pages, which return to the system when it is freed. Otherwise 70 MB would stay behind."""
    return np.ndarray(shape, np.int8, mmap.mmap(-1, max(1, math.prod(shape))))


def read_packed(path: Path) -> dict[str, Weight]:
    """The weights of a file, by the names of their parameters. Raises `DamagedWeights`, `OSError`."""
    try:
        return weights_in(read_tensors(path))
    except DamagedWeights:
        raise
    except ValueError as error:
        raise DamagedWeights(f"{path} is damaged: {error}") from None


def weights_in(tensors: Mapping[str, NDArray[Any]]) -> dict[str, Weight]:
    """The weights that `flat` made these tensors of. Raises `ValueError`."""
    weights = dict[str, Weight]()
    try:
        for name, tensor in tensors.items():
            own, _, field = name.rpartition(".")
            if field == "int4":
                packed = Packed(tensor, tensors[f"{own}.factors"], tensors[f"{own}.scales"])
                blocks, half, outputs = tensor.shape
                if half != BLOCK // 2 or len(packed.factors) != -(-blocks * outputs // 2):
                    raise ValueError(f"{own} has another shape than its factors")
                weights[own] = packed
            elif field == "int8":
                weights[own] = Rows(tensor, tensors[f"{own}.scales"])
            elif not name.endswith(FIELDS):
                weights[name] = tensor
    except KeyError as error:
        raise ValueError(f"it lacks {error.args[0]}") from None
    for name, weight in weights.items():
        if not isinstance(weight, np.ndarray) and weight.scales.shape != weight.shape[:1]:
            raise ValueError(f"{name} has another shape than its scales")
    return weights
