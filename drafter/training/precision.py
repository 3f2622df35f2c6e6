"""The precision of training: bfloat16 if the processor multiplies it quickly, else float32."""

from __future__ import annotations

import time
from functools import cache

import torch

SIDE, TIMES = 512, 10
"""Rows and columns of the matrices that are multiplied for the comparison, and how often."""
NOISE = 10.0
"""How many times as long bfloat16 may take in such a short test. Without instructions for it, it takes some hundred
times as long; with them, half to twice as long. A bound among those would let processes that train together, and a run
that is resumed, choose differently."""


def autocast(device: str) -> torch.autocast:
    """A context for forwards of a model on `device` ("cpu", "cuda:1") in the faster precision.

    A processor without instructions for bfloat16 (such as x86 before AVX-512) may take a hundred times as long with it.
    """
    kind = device.split(":")[0]
    return torch.autocast(kind, torch.bfloat16, enabled=kind != "cpu" or bfloat16_is_quick())


@cache
def bfloat16_is_quick() -> bool:
    """Whether this processor has quick instructions for bfloat16. Takes 0.1 s."""
    seconds = _seconds()
    return seconds[torch.bfloat16] <= NOISE * seconds[torch.float32]


def _seconds() -> dict[torch.dtype, float]:
    """The least time of one multiplication in each precision, after one that warms up."""
    matrices = {dtype: torch.ones(SIDE, SIDE, dtype=dtype) for dtype in (torch.bfloat16, torch.float32)}
    best = dict.fromkeys(matrices, float("inf"))
    for _ in range(1 + TIMES):  # Alternating, so that other load on the processor slows both.
        for dtype, matrix in matrices.items():
            started = time.perf_counter()
            matrix @ matrix
            best[dtype] = min(best[dtype], time.perf_counter() - started)
    return best
