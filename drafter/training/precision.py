"""The precision that training computes in: bfloat16 where the processor multiplies it quickly, float32 elsewhere."""

from __future__ import annotations

import time
from functools import cache

import torch

SIDE, TIMES = 256, 3
"""Rows and columns of the matrices that are multiplied to compare, and how often."""


def autocast(device: str) -> torch.autocast:
    """A context for forwards of a model on `device` ("cpu", "cuda:1"), in the quicker precision.

    A processor without instructions for bfloat16 (such as x86 before AVX-512) may take a hundred times as long with it.
    """
    kind = device.split(":")[0]
    return torch.autocast(kind, torch.bfloat16, enabled=kind != "cpu" or bfloat16_is_quick())


@cache
def bfloat16_is_quick() -> bool:
    """Whether this processor multiplies matrices of bfloat16 at least as fast as those of float32. Takes 0.1 s."""
    return _seconds(torch.bfloat16) <= _seconds(torch.float32)


def _seconds(dtype: torch.dtype) -> float:
    """The least time of one multiplication, after one that warms up."""
    matrix = torch.ones(SIDE, SIDE, dtype=dtype)
    best = float("inf")
    for _ in range(1 + TIMES):
        started = time.perf_counter()
        matrix @ matrix
        best = min(best, time.perf_counter() - started)
    return best
