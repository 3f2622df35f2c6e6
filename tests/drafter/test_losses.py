"""Distances between distributions, and what a chain gains, in cases with known results."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from drafter.training.losses import DIVERGENCES, agrees, chain_tau, divergence


def distributions(seed: int, spread: float) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(seed)
    logits = torch.randn(2, 5, 9, generator=random) * spread
    return torch.log_softmax(logits[0], dim=-1), torch.log_softmax(logits[1], dim=-1)


@given(st.integers(0, 2**31), st.floats(0.1, 4))
def test_distances_are_what_they_are_called(seed, spread):
    wanted, guessed = distributions(seed, spread)
    p, q = wanted.exp(), guessed.exp()
    tv = divergence(wanted, guessed, "tv")
    torch.testing.assert_close(tv, (p - q).abs().sum(-1) / 2, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(divergence(wanted, guessed, "lk"), -torch.log1p(-tv), atol=1e-5, rtol=1e-3)
    kl = torch.nn.functional.kl_div(guessed, wanted, reduction="none", log_target=True).sum(-1)
    torch.testing.assert_close(divergence(wanted, guessed, "kl"), kl, atol=1e-5, rtol=1e-4)
    assert (kl >= 2 * tv**2 - 1e-5).all()  # Pinsker.


@pytest.mark.parametrize("kind", DIVERGENCES)
def test_the_target_itself_is_at_no_distance(kind):
    wanted, _ = distributions(0, 2.0)
    torch.testing.assert_close(divergence(wanted, wanted, kind), torch.zeros(5), atol=1e-5, rtol=0)


def test_the_logarithm_pulls_where_nothing_overlaps():
    wanted = torch.log_softmax(torch.tensor([[20.0, 0.0, 0.0]]), dim=-1)
    pulls = {}
    for kind in DIVERGENCES:
        logits = torch.tensor([[0.0, 20.0, 0.0]], requires_grad=True)
        divergence(wanted, torch.log_softmax(logits, dim=-1), kind).sum().backward()
        pulls[kind] = logits.grad.abs().max().item()
    assert pulls["tv"] < 1e-6 and pulls["lk"] > 0.1 and pulls["kl"] > 0.1


def test_what_a_chain_gains():
    assert chain_tau([]) == 1.0
    assert chain_tau([0.5, 0.5]) == 1.75
    assert chain_tau([1.0] * 7) == 8.0
    assert chain_tau([0.0, 1.0]) == 1.0


def test_agreement_is_about_the_likeliest_token():
    wanted = torch.tensor([[0.6, 0.4], [0.6, 0.4]]).log()
    guessed = torch.tensor([[0.9, 0.1], [0.4, 0.6]]).log()
    assert agrees(wanted, guessed).tolist() == [1.0, 0.0]
    assert divergence(wanted, guessed, "tv").tolist() == pytest.approx([0.3, 0.2])
    assert divergence(wanted, guessed, "lk").tolist() == pytest.approx([-math.log(0.7), -math.log(0.8)])
