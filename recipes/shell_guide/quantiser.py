"""The quantiser that the target learns through, so that what ships is what was trained.

`quantise` makes a model compute as its graph does: matrices as `models/packed.py` stores them (4 bits, a 4-bit factor
for each 32 inputs, a float32 scale for each output), the embedding and the head in 8 bits with a scale for each token,
and the inputs of all linear layers in 8 bits with a scale for each row. Gradients pass through all of these unchanged
(straight-through estimator, arXiv 1308.3432).

On a CPU the products are computed in whole numbers of 8 bits, as the graph computes them, which is four times as fast
as in float32. So is the gradient of what goes into a layer, rounded to 8 bits for each row; that of the weights is
computed in float32 (SwitchBack, arXiv 2304.13013).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx
from torch.nn import functional
from transformers import PreTrainedModel

from models.packed import Weight

whole_product = torch._int_mm  # noqa: SLF001 - PyTorch has no public name for it
"""int8 (n, k) times int8 (k, m): int32."""

BLOCK = 32
"""Inputs that share a block scale."""


class Parts(NamedTuple):
    """A matrix (out, in) in 4 bits: the product of these three."""

    scales: Tensor
    """(out, 1, 1), float32."""
    blocks: Tensor
    """(out, in / 32, 1): whole numbers from 1 to 15."""
    numbers: Tensor
    """(out, in / 32, 32): whole numbers from -8 to 7."""

    def product(self) -> Tensor:
        return (self.scales * (self.blocks * self.numbers)).flatten(1)

    def whole(self) -> Whole:
        return Whole((self.blocks * self.numbers).flatten(1).to(torch.int8), self.scales.flatten())


class Whole(NamedTuple):
    """A matrix in whole numbers: the product of these two."""

    numbers: Tensor
    """(out, in), int8."""
    scales: Tensor
    """(out,), float32."""


def parts(weight: Tensor) -> Parts:
    """The nearest such matrix, found as `models/packed.py` finds it. `weight`: (out, in), float32."""
    cut = weight.unflatten(1, (-1, BLOCK))
    wanted = cut.abs().amax(-1, keepdim=True) / 7
    scales = wanted.amax(1, keepdim=True) / 15
    scales = torch.where(scales == 0, 1.0, scales)
    blocks = (wanted / scales).round().clamp(1, 15)
    return Parts(scales, blocks, (cut / (scales * blocks)).round().clamp(-8, 7))


def in_eight_bits(rows: Tensor) -> Tensor:
    """Numbers in 8 bits with one scale for each row of the last axis."""
    with torch.no_grad():
        numbers, scale = _whole(rows)
    return _passing(numbers * scale, rows)


def _whole(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Whole numbers from -127 to 127, and the scale of each row of the last axis."""
    scale = rows.abs().amax(-1, keepdim=True).clamp(min=1e-30) / 127
    return (rows / scale).round(), scale


def _passing(rounded: Tensor, exact: Tensor) -> Tensor:
    """The rounded numbers, with the gradient of the exact ones."""
    return exact + (rounded - exact).detach()


class _WholeProduct(torch.autograd.Function):
    """Rows (n, in), in 8 bits, times a matrix. `weight`: what the gradient of the matrix is for."""

    @staticmethod
    def forward(ctx: FunctionCtx, rows: Tensor, weight: Tensor, matrix: Tensor, scales: Tensor) -> Tensor:
        numbers, scale = _whole(rows.float())
        numbers = numbers.to(torch.int8)
        ctx.save_for_backward(numbers, scale, matrix, scales)
        return whole_product(numbers, matrix.t()).float() * scale * scales

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None]:
        numbers, scale, matrix, scales = ctx.saved_tensors
        back, back_scale = _whole(gradient * scales)
        of_rows = whole_product(back.to(torch.int8), matrix).float() * back_scale
        return of_rows, gradient.t() @ (numbers.float() * scale), None, None


class PackedLinear(nn.Linear):
    """A linear layer with its matrix in 4 bits and its inputs in 8."""

    kept: Whole | None = None
    """The matrix, if the weights do not change any more."""

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            matrix = parts(self.weight).whole() if self.kept is None else self.kept
        if x.device.type == "cpu" and self.bias is None:
            return _WholeProduct.apply(x.flatten(0, -2), self.weight, *matrix).view(*x.shape[:-1], -1)
        product = matrix.numbers * matrix.scales[:, None]
        return functional.linear(in_eight_bits(x), _passing(product, self.weight), self.bias)


class EightBitHead(nn.Linear):
    """A head with its matrix and its inputs in 8 bits."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(in_eight_bits(x), in_eight_bits(self.weight))


class EightBitEmbedding(nn.Embedding):
    """An embedding in 8 bits."""

    def forward(self, ids: Tensor) -> Tensor:
        return in_eight_bits(super().forward(ids))


def quantise(model: PreTrainedModel) -> None:
    """Let a model with tied embeddings compute with quantised weights and inputs from now on. Its parameters stay."""
    quantise_layers(model)
    model.get_input_embeddings().__class__ = EightBitEmbedding
    model.get_output_embeddings().__class__ = EightBitHead


def quantise_layers(model: PreTrainedModel, packed: Mapping[str, Weight] | None = None) -> None:
    """The same for its layers alone. `packed`: the weights that it was read from, which do not change any more."""
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear) and name.startswith("model.layers."):
            module.__class__ = PackedLinear
            if packed is not None:
                weight = packed[f"{name}.weight"]
                assert not isinstance(weight, np.ndarray)
                module.kept = Whole(*(torch.tensor(part, device=module.weight.device) for part in weight.int8()))
