"""Quantises linear layers with optimum's quanto, without the compiler that it would look for. Slow to import."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Literal

import torch
from optimum.quanto import freeze, qint4, qint8, quantize
from optimum.quanto.library.extensions import get_extension, is_extension_available
from torch import Tensor, nn


def quantise(module: nn.Module, bits: Literal[8, 4], *, head: str, head_bits: Literal[8] | None) -> None:
    """Quantise the weights of a module's linear layers in place.

    `head`: the layer that chooses the tokens, so 4 bits are too few for it. Without `head_bits` it stays as it is.
    """
    need_no_compiler()
    if head_bits is not None:
        quantize(module, weights=qint8, include=head)
    quantize(module, weights=qint8 if bits == 8 else qint4, exclude=head)
    freeze(module)


def need_no_compiler() -> None:
    """Make quanto unpack int4 weights with PyTorch's own operations instead of its C++ or CUDA extensions."""
    for name in ("quanto_cpp", "quanto_cuda", "quanto_hip", "quanto_mps"):
        if is_extension_available(name):
            get_extension(name)._lib = SimpleNamespace(unpack=unpack)


def unpack(packed: Tensor, bits: int) -> Tensor:
    """Unpack uint8 with 8 // bits numbers in each: all low ones first, then the next, as uint8."""
    return torch.cat([packed >> shift & (1 << bits) - 1 for shift in range(0, 8, bits)])
