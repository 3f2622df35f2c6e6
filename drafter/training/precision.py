"""The precision of training: bfloat16 if the processor multiplies it quickly, else float32."""

from __future__ import annotations

import torch


def autocast(device: str) -> torch.autocast:
    """A context for forwards of a model on `device` ("cpu", "cuda:1") in the faster precision."""
    kind = device.split(":")[0]
    return torch.autocast(kind, torch.bfloat16, enabled=kind != "cpu" or bfloat16_is_quick())


def bfloat16_is_quick() -> bool:
    """Whether this processor has matrix units for bfloat16 (AMX).

    Without them it takes at least as long as float32: 1.8 times on a Xeon with AVX-512 for it, some hundred times on
    older ones. All processes that train together have to choose the same, so this is not measured.
    """
    return bool(torch.cpu.get_capabilities().get("amx_bf16", False))
