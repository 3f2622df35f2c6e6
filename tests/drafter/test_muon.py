"""Muon in float32 learns what torch's learns in bfloat16."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from drafter.training import precision
from drafter.training.muon import Muon


@pytest.fixture(autouse=True)
def slow_with_bfloat16(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(precision, "_seconds", lambda: {torch.bfloat16: 100.0, torch.float32: 1.0})
    precision.bfloat16_is_quick.cache_clear()
    yield
    precision.bfloat16_is_quick.cache_clear()


@pytest.mark.parametrize("shape", [(48, 80), (80, 48)])
def test_it_goes_where_the_one_of_torch_goes(shape: tuple[int, int]) -> None:
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


# ---- the precision of training ---------------------------------------------------------------------------------------


QUICK, DISTURBED, SLOW = 0.001, 0.0018, 0.1


@pytest.mark.parametrize(
    ("half", "wanted"), [(QUICK, torch.bfloat16), (DISTURBED, torch.bfloat16), (SLOW, torch.float32)]
)
def test_a_processor_computes_in_what_it_multiplies_quickly(
    monkeypatch: pytest.MonkeyPatch, half: float, wanted: torch.dtype
) -> None:
    monkeypatch.setattr(precision, "_seconds", lambda: {torch.bfloat16: half, torch.float32: QUICK})
    precision.bfloat16_is_quick.cache_clear()
    matrix = torch.ones(4, 4)
    with precision.autocast("cpu"):
        assert (matrix @ matrix).dtype is wanted
    assert (matrix @ matrix).dtype is torch.float32
