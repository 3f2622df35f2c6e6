"""optimum's quanto, without the compiler that it looks for when it first unpacks int4 weights."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from optimum.quanto.library.extensions import get_extension, is_extension_available
from torch import Tensor


def need_no_compiler() -> None:
    """Let quanto unpack int4 weights by PyTorch's own operations: the same calls as its C++ or CUDA makes."""
    for name in ("quanto_cpp", "quanto_cuda", "quanto_hip", "quanto_mps"):
        if is_extension_available(name):
            get_extension(name)._lib = SimpleNamespace(unpack=unpack)


def unpack(packed: Tensor, bits: int) -> Tensor:
    """uint8 with 8 // bits numbers in each -> the numbers, uint8, the low ones of all first."""
    return torch.cat([packed >> shift & (1 << bits) - 1 for shift in range(0, 8, bits)])
