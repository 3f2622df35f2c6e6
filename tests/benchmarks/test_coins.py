"""The benchmark of coins: both ways answer the same, and tau is counted over the same answers."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.coins import compared, tau
from drafter.search import Pace


def test_the_gain_is_that_of_tau_over_the_same_answers(engine, drafter, prompts):
    row = compared(engine, drafter, prompts, 1.0, Pace(4, 4, 8))
    assert row["answers"] == len(prompts) and row["plain"] >= 1 and row["coins"] >= 1
    assert row["gain"] == pytest.approx(row["coins"] / row["plain"] - 1, abs=0.002)
    low, high = row["ci95"]
    assert low <= row["gain"] <= high


def test_tau_is_tokens_over_rounds():
    rounds = np.array([[[6, 2], [9, 3]], [[1, 1], [3, 1]]])
    assert tau(rounds).tolist() == [3.0, 2.0] and tau(rounds[0]) == 3.0
