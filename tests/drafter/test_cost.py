"""What rounds take is learnt from rounds: the right numbers come out of those that made them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drafter.cost import LONGEST_WAIT, WAITING, Cost, CostMeter

milliseconds = st.floats(1e-3, 0.2)


def taught(cost: Cost, rounds: int, sizes: tuple[int, ...]) -> CostMeter:
    meter = CostMeter()
    for number in range(rounds):
        nodes = sizes[number % len(sizes)]
        meter.drafted(1 + number % 8, (1 + number % 8) * cost.level)
        meter.judged(nodes, cost.round + nodes * cost.node)
    return meter


def test_nothing_is_known_before_a_draft_and_its_verdict():
    meter = CostMeter()
    assert meter.cost is None
    meter.judged(8, 0.1)
    meter.drafted(0, 0.5)
    assert meter.cost is None
    meter.drafted(4, 0.02)
    assert meter.cost is not None and meter.cost.level == pytest.approx(0.005)


@given(milliseconds, milliseconds, st.floats(1e-4, 5e-3))
def test_rounds_of_several_sizes_tell_all_three(round_seconds, level, node):
    cost = taught(Cost(round_seconds, level, node), 200, (0, 4, 16, 40)).cost
    assert cost.level == pytest.approx(level)
    assert cost.node == pytest.approx(node, rel=0.05, abs=0.01 * level)
    assert cost.round == pytest.approx(round_seconds, rel=0.05, abs=15 * (0.05 * node + 0.01 * level))


def test_the_rows_of_a_draft_are_told_from_its_calls():
    meter = CostMeter()
    meter.judged(4, 0.1)
    meter.drafted(4, 0.06)
    assert meter.cost.row == 0.0, "where they are not counted, they are part of the call"
    for number in range(60):
        calls, rows = 1 + number % 6, number * 7 % 20
        meter.drafted(calls, 0.015 * calls + 0.004 * rows, rows)
    assert meter.cost.level == pytest.approx(0.015, rel=0.1) and meter.cost.row == pytest.approx(0.004, rel=0.1)


def test_a_pause_of_the_machine_counts_little_and_a_line_that_changes_is_followed():
    meter = taught(Cost(0.02, 0.002, 0.0005), 100, (0, 8, 16))
    before = meter.cost
    meter.judged(8, 60.0)
    meter.drafted(8, 60.0)
    assert meter.cost.round < 1.2 * before.round and meter.cost.level < 1.3 * before.level
    for nodes in (0, 8, 16) * 40:
        meter.judged(nodes, 0.3 + nodes * 0.0005)
    assert meter.cost.round == pytest.approx(0.3, rel=0.05)


@given(st.lists(st.tuples(st.integers(0, 60), st.floats(0, 10)), min_size=1, max_size=30), milliseconds)
def test_no_cost_is_negative(rounds, level):
    meter = CostMeter()
    meter.drafted(1, level)
    for nodes, seconds in rounds:
        meter.judged(nodes, seconds)
    assert min(meter.cost.round, meter.cost.level, meter.cost.node) >= -1e-12


def test_the_line_is_waited_for_beside_the_verifier():
    meter = taught(Cost(0.02, 0.002, 0.0005), 100, (0, 8, 16))
    alone = meter.cost
    for _ in range(20):
        meter.waited(0.4)
    assert meter.cost == Cost(pytest.approx(alone.round + 0.4), alone.level, alone.node)
    meter.waited(0.0)
    assert meter.cost.round == pytest.approx(alone.round + 0.3), "a better line is noticed at once"


def test_a_first_guess_stands_until_something_is_measured():
    meter = CostMeter(Cost(0.1, 0.01, 0.001))
    assert meter.cost == meter.first
    meter.drafted(4, 0.08)
    assert meter.cost == Cost(0.1, 0.02, 0.001), "what a call takes is known before any verdict"
    meter.judged(0, 0.02)
    assert meter.cost.round == pytest.approx(0.12), "the line counts as guessed until it was waited for"
    meter.waited(0.5)
    assert meter.cost.round == pytest.approx(0.52)
    meter.waited(3600.0)
    assert meter.cost.round < 0.52 + WAITING * LONGEST_WAIT, "somebody had closed the lid"


def test_rates_count_the_bonus_token():
    rates = Cost(0.1, 0.01, 0.001).rates(np.array([0.5, 0.25]), levels=2)
    np.testing.assert_allclose(rates, [1 / 0.12, 1.5 / 0.121, 1.75 / 0.122])
