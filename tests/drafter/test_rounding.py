"""Weights that are trained as 4 bits hold them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from drafter.training.graph_weights import BITS, Rounded, round_weights
from models.engines.quantise import in_blocks


def stored(weight: np.ndarray) -> np.ndarray:
    """(outputs, inputs) as a graph holds it."""
    packed, scales = in_blocks(np.ascontiguousarray(weight.T), BITS)
    numbers = np.stack((packed & 15, packed >> 4), axis=-1).reshape(*packed.shape[:2], -1).astype(np.float32) - 8
    return (numbers * scales[..., None]).reshape(len(weight), -1)[:, : weight.shape[1]]


@pytest.mark.parametrize("inputs", [32, 40, 7])
def test_a_rounded_matrix_is_what_a_graph_holds(inputs: int) -> None:
    weight = np.random.default_rng(0).normal(size=(5, inputs)).astype(np.float32)
    weight[2] = 0
    np.testing.assert_allclose(Rounded()(torch.from_numpy(weight)).numpy(), stored(weight), atol=1e-6)


def test_the_gradient_passes_by_the_rounding() -> None:
    weight = torch.randn(4, 64, requires_grad=True)
    slope = torch.randn(4, 64)
    (Rounded()(weight) * slope).sum().backward()
    assert weight.grad is not None
    assert torch.equal(weight.grad, slope)


def test_only_named_layers_are_rounded_and_the_exact_weights_are_trained() -> None:
    model = nn.Sequential(nn.Linear(32, 3, bias=False), nn.Linear(3, 2, bias=False))
    exact = model[0].weight.detach().clone()
    renamed = round_weights(model, {"0.weight"})
    parameters = dict(model.named_parameters())
    assert list(renamed.values()) == ["0.weight"]
    assert set(parameters) == {*renamed, "1.weight"}
    assert torch.equal(parameters[next(iter(renamed))], exact)
    x = torch.randn(6, 32)
    expected = x @ torch.from_numpy(stored(exact.numpy())).T @ model[1].weight.T
    torch.testing.assert_close(model(x), expected)
