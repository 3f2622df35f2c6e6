"""What a forward takes is learnt from forwards of several sizes."""

from __future__ import annotations

import random

import pytest

from remote.verifier.forward_times import FIRST_ROW, ForwardTimes, Mean


def taken(sessions: int, rows: int) -> float:
    """A target that needs 1 ms, 0.2 ms for each session, and 0.1 ms for each row."""
    return 0.001 + 0.0002 * sessions + 0.0001 * rows


def test_sessions_and_rows_are_told_apart() -> None:
    times, rng = ForwardTimes(), random.Random(1)
    assert not times.known and times.seconds(1, 1) == 0
    for _ in range(400):
        sessions = rng.choice([1, 4, 16])
        rows = sessions * rng.randint(1, 4)
        times.add(sessions, rows, taken(sessions, rows) * rng.uniform(0.9, 1.1))
    assert times.known
    assert times.row == pytest.approx(0.0001, rel=0.2)
    for sessions, rows in ((1, 1), (1, 5), (16, 16), (64, 64)):
        assert times.seconds(sessions, rows) == pytest.approx(taken(sessions, rows), rel=0.15)


def test_what_was_learnt_of_a_row_stays_while_all_forwards_are_alike() -> None:
    times = ForwardTimes()
    for at in range(100):
        times.add(1, 1 + at % 6, taken(1, 1 + at % 6))
    for _ in range(1000):
        times.add(16, 16, taken(16, 16))
    assert times.row == pytest.approx(0.0001, rel=0.3)


def test_before_two_sizes_were_seen_a_row_has_its_first_guess() -> None:
    times = ForwardTimes()
    times.add(1, 1, 0.004)
    assert times.seconds(1, 1) == pytest.approx(0.004, rel=0.01)
    assert times.row == pytest.approx(0.004 * FIRST_ROW, rel=0.01)


def test_more_rows_never_take_less_time_and_a_pause_counts_little() -> None:
    times = ForwardTimes()
    for rows, seconds in ((1, 0.004), (8, 0.003), (64, 0.002)) * 20:
        times.add(1, rows, seconds)
    assert times.row >= 0 and times.seconds(1, 64) >= times.seconds(1, 1) > 0
    mean = Mean()
    for seconds in (1.0, 1.0, 1000.0):
        mean.add(seconds)
    assert mean.seconds < 2


def test_a_forward_counts_once_however_many_tell_of_it() -> None:
    times = ForwardTimes()
    for _ in range(16):
        times.add(16, 20, 0.005)
    ((only),) = times._classes.values()
    assert only.count == 1
