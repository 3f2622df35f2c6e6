"""Which precision training computes in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from drafter.training import precision

QUICK, DISTURBED, SLOW = 0.001, 0.0018, 0.1


@pytest.fixture(autouse=True)
def measured_anew() -> Iterator[None]:
    precision.bfloat16_is_quick.cache_clear()
    yield
    precision.bfloat16_is_quick.cache_clear()


@pytest.mark.parametrize(
    ("half", "wanted"), [(QUICK, torch.bfloat16), (DISTURBED, torch.bfloat16), (SLOW, torch.float32)]
)
def test_a_processor_computes_in_what_it_multiplies_quickly(
    monkeypatch: pytest.MonkeyPatch, half: float, wanted: torch.dtype
) -> None:
    monkeypatch.setattr(precision, "_seconds", lambda: {torch.bfloat16: half, torch.float32: QUICK})
    matrix = torch.ones(4, 4)
    with precision.autocast("cpu"):
        assert (matrix @ matrix).dtype is wanted
    assert (matrix @ matrix).dtype is torch.float32
