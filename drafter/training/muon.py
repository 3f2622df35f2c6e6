"""Muon (Jordan et al. 2024) in the processor's faster precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from drafter.training.precision import bfloat16_is_quick

RATE_TO_ADAMW = 0.2
"""Root mean square of an AdamW update, to which those of Muon are scaled (arXiv 2502.16982)."""


class Muon(torch.optim.Muon):
    """torch's Muon with AdamW's learning rates; a CPU that is slow with bfloat16 orthogonalises in float32.

    torch's own always computes in bfloat16, which on such a CPU takes longer than the rest of the training.
    """

    def __init__(self, matrices: list[Tensor], rate: float, weight_decay: float = 0.0) -> None:
        """`matrices`: the weights to learn, each of two dimensions. `rate`: as for AdamW."""
        super().__init__(matrices, lr=rate, weight_decay=weight_decay, momentum=0.95, adjust_lr_fn="match_rms_adamw")

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Learn one step along the gradients, without a closure."""
        assert closure is None
        learnt = [(weight, group) for group in self.param_groups for weight in group["params"]]
        if bfloat16_is_quick() or any(weight.device.type != "cpu" for weight, _ in learnt):
            super().step()  # type: ignore[no-untyped-call]
        else:
            for weight, group in learnt:
                if weight.grad is not None:
                    self._learn(weight, weight.grad, group)
        return None

    def _learn(self, weight: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        state = self.state[weight]
        if not state:
            state["momentum_buffer"] = torch.zeros_like(gradient)
        buffer = state["momentum_buffer"].lerp_(gradient, 1 - group["momentum"])
        update = orthogonal(gradient.lerp(buffer, group["momentum"]), group["ns_coefficients"], group["ns_steps"])
        weight.mul_(1 - group["lr"] * group["weight_decay"])
        weight.add_(update, alpha=-group["lr"] * RATE_TO_ADAMW * max(weight.shape) ** 0.5)


def orthogonal(matrix: Tensor, coefficients: tuple[float, float, float], steps: int) -> Tensor:
    """The matrix with its singular values moved towards one: Newton-Schulz iterations with a polynomial of degree 5.

    The iterations run on the smaller of the matrix's two products with itself, and multiply the matrix once at the end.
    Shape and type are those of `matrix`.
    """
    tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.mT if tall else matrix
    x = x / x.norm().clamp(min=1e-7)
    gram, factor = x @ x.mT, torch.eye(len(x), dtype=x.dtype)
    a, b, c = coefficients
    for _ in range(steps):
        polynomial = torch.addmm(gram, gram, gram, beta=b, alpha=c)
        polynomial.diagonal().add_(a)
        factor = polynomial @ factor
        gram = polynomial @ gram @ polynomial  # They are polynomials of one matrix, so they commute.
    made: Tensor = factor @ x
    return made.mT if tall else made
