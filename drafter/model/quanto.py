"""Lets optimum's quanto unpack int4 weights without the compiler that it looks for."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from optimum.quanto.library.extensions import get_extension, is_extension_available
from torch import Tensor


def need_no_compiler() -> None:
    """Make quanto unpack int4 weights with PyTorch's own operations, in place of its C++ or CUDA extensions."""
    for name in ("quanto_cpp", "quanto_cuda", "quanto_hip", "quanto_mps"):
        if is_extension_available(name):
            get_extension(name)._lib = SimpleNamespace(unpack=unpack)


def unpack(packed: Tensor, bits: int) -> Tensor:
    """Unpack uint8 with 8 // bits numbers in each: all low ones first, then the next, as uint8."""
    return torch.cat([packed >> shift & (1 << bits) - 1 for shift in range(0, 8, bits)])
