"""Parts of a training: the loss, the optimiser, the precision, and the progress that is told."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from drafter.training import precision
from drafter.training.losses import divergence
from drafter.training.muon import Muon


@given(st.integers(0, 2**31), st.floats(0.1, 4))
def test_the_distance_is_that_of_kullback_and_leibler(seed, spread):
    logits = torch.randn(2, 5, 9, generator=torch.Generator().manual_seed(seed)) * spread
    wanted, guessed = torch.log_softmax(logits, dim=-1)
    kl = torch.nn.functional.kl_div(guessed, wanted, reduction="none", log_target=True).sum(-1)
    torch.testing.assert_close(divergence(wanted, guessed), kl, atol=1e-5, rtol=1e-4)


@pytest.fixture
def units(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Say whether this processor has matrix units for bfloat16."""
    return lambda there: monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"amx_bf16": there})


@pytest.mark.parametrize("shape", [(48, 80), (80, 48)])
def test_muon_in_float32_learns_what_the_one_of_torch_does_in_bfloat16(units, shape):
    units(False)
    generator = torch.Generator().manual_seed(5)
    begin = torch.randn(shape, generator=generator)
    ours, theirs = begin.clone().requires_grad_(), begin.clone().requires_grad_()
    ourselves = Muon([ours], 0.01, weight_decay=0.1)
    torchs = torch.optim.Muon([theirs], lr=0.01, weight_decay=0.1, momentum=0.95, adjust_lr_fn="match_rms_adamw")
    for _ in range(4):
        gradient = torch.randn(shape, generator=generator)
        ours.grad, theirs.grad = gradient.clone(), gradient.clone()
        ourselves.step()
        torchs.step()
    moved, wanted = (ours - begin).detach(), (theirs - begin).detach()
    assert (moved - wanted).norm() < 0.02 * wanted.norm()  # bfloat16 keeps eight bits.
    torchs.load_state_dict(ourselves.state_dict())  # What one has written, the other goes on from.
    kept = torchs.state[theirs]["momentum_buffer"]
    torch.testing.assert_close(kept, ourselves.state[ours]["momentum_buffer"])


@pytest.mark.parametrize(("there", "wanted"), [(True, torch.bfloat16), (False, torch.float32)])
def test_a_processor_computes_in_what_it_multiplies_quickly(units, there, wanted):
    units(there)
    matrix = torch.ones(4, 4)
    with precision.autocast("cpu"):
        assert (matrix @ matrix).dtype is wanted
    assert (matrix @ matrix).dtype is torch.float32
