"""The training loop: its schedule, its optimisers, and that a killed run continues as if nothing had happened."""

from __future__ import annotations

import itertools
import json
import weakref
from collections.abc import Callable, Iterator

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from drafter.training import precision
from drafter.training.loop import Schedule, fit
from drafter.training.losses import Losses, divergence
from drafter.training.muon import Muon


@given(st.integers(1, 500), st.integers(1, 60), st.floats(0, 1))
def test_the_rate_rises_stays_and_falls_to_zero(steps, warmup, decay):
    schedule = Schedule(steps=steps, rate=2.0, warmup=warmup, decay=decay)
    rates = [schedule.rate_at(step) for step in range(steps)]
    assert all(0 < rate <= 2.0 for rate in rates)
    falls = [later < earlier for earlier, later in itertools.pairwise(rates)]
    assert falls == sorted(falls)
    assert schedule.rate_at(steps) == 0.0


class Tiny(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5, 4)
        self.layer = nn.Linear(4, 4)
        self.head = nn.Linear(4, 5, bias=False)
        self.frozen = nn.Linear(4, 4).requires_grad_(False)


def run(out, steps: int) -> Tiny:
    """The batches are the steps' numbers; the model draws noise, which must be the same after a kill."""
    torch.manual_seed(0)
    model = Tiny()

    def losses(step: int) -> Losses:
        x = model.layer(model.embedding.weight) + torch.randn(5, 4) + step
        return Losses(model.head(x).float().pow(2).mean(), 0.5, [0.5, 0.25])

    model.seconds = fit(model, itertools.count, losses, out, Schedule(steps=steps, warmup=1, decay=0.0))
    return model


def test_a_killed_run_goes_on(tmp_path):
    whole = run(tmp_path / "whole", 7)
    run(tmp_path / "killed", 3)
    resumed = run(tmp_path / "killed", 7)
    assert all(torch.equal(one, other) for one, other in zip(whole.parameters(), resumed.parameters(), strict=True))
    again = run(tmp_path / "killed", 7)
    assert again.seconds == resumed.seconds
    log = [json.loads(line) for line in (tmp_path / "killed/log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in log] == [0, 2, 6]
    assert [line["seconds"] for line in log] == sorted(line["seconds"] for line in log)
    assert log[-1]["chain_tau"] == 1.625 and log[-1]["divergence"] == 0.5


def test_a_step_leaves_nothing_of_its_graph_in_memory(tmp_path):
    model, totals = Tiny(), []

    def losses(step: int) -> Losses:
        found = Losses(model.head(model.embedding.weight).float().pow(2).mean(), 0.5, [0.5])
        # The step before is still in the loop's hands.
        assert all(total() is None for total in totals[:-1])
        totals.append(weakref.ref(found.total))
        return found

    fit(model, itertools.count, losses, tmp_path, Schedule(steps=4, warmup=1, decay=0.0))
    assert len(totals) == 4


# ---- losses ----------------------------------------------------------------------------------------------------------


@given(st.integers(0, 2**31), st.floats(0.1, 4))
def test_the_distance_is_that_of_kullback_and_leibler(seed, spread):
    logits = torch.randn(2, 5, 9, generator=torch.Generator().manual_seed(seed)) * spread
    wanted, guessed = torch.log_softmax(logits, dim=-1)
    kl = torch.nn.functional.kl_div(guessed, wanted, reduction="none", log_target=True).sum(-1)
    torch.testing.assert_close(divergence(wanted, guessed), kl, atol=1e-5, rtol=1e-4)


# ---- precision -------------------------------------------------------------------------------------------------------


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[float, float], None]]:
    """Tells how many seconds bfloat16 and float32 take here."""

    def tell(half: float, whole: float) -> None:
        monkeypatch.setattr(precision, "_seconds", lambda: {torch.bfloat16: half, torch.float32: whole})
        precision.bfloat16_is_quick.cache_clear()

    yield tell
    precision.bfloat16_is_quick.cache_clear()


@pytest.mark.parametrize("shape", [(48, 80), (80, 48)])
def test_muon_in_float32_learns_what_the_one_of_torch_does_in_bfloat16(measured, shape):
    measured(100.0, 1.0)
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


@pytest.mark.parametrize(("half", "wanted"), [(0.0018, torch.bfloat16), (0.1, torch.float32)])
def test_a_processor_computes_in_what_it_multiplies_quickly(measured, half, wanted):
    measured(half, 0.001)
    matrix = torch.ones(4, 4)
    with precision.autocast("cpu"):
        assert (matrix @ matrix).dtype is wanted
    assert (matrix @ matrix).dtype is torch.float32
