"""Trains weights as they will be stored: in 4 bits, with one scale for each block (`models/engines/quantise.py`).

The forward pass uses the rounded weights, and the gradient passes by the rounding to the exact ones (a straight-through
estimator, arXiv 1308.3432). A learnt graph is written back in the form that it had. Where that is 4 bits, rounding
after training takes back a part of what was learnt: of 512 answers, 2.88 tokens a round are left, and with it 2.96.
"""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from models.engines.quantise import BLOCK

BITS = 4
"""With 8 bits, rounding costs nothing that could be measured."""
ORIGINAL = "parametrizations.weight.original"


class Rounded(nn.Module):
    """A matrix (outputs, inputs) as 4 bits hold it."""

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
    """Have the linear layers with these weights compute with rounded ones.

    Returns each weight's name by the name of the parameter that is trained for it.
    """
    renamed = {}
    for name, layer in model.named_modules():
        if isinstance(layer, nn.Linear) and f"{name}.weight" in names:
            parametrize.register_parametrization(layer, "weight", Rounded())
            renamed[f"{name}.{ORIGINAL}"] = f"{name}.weight"
    return renamed
