"""Deadlines, states and probe delays follow from what was observed."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remote.link import (
    BUSY_SECONDS,
    FIRST_BYTES_PER_SECOND,
    FIRST_DEADLINE_SECONDS,
    MARGIN_SECONDS,
    MAX_DEADLINE_SECONDS,
    PROBE_SECONDS,
    RECENT,
    SERVER_SLACK,
    SLOW_SECONDS,
    STALL_SECONDS,
    Link,
    Signs,
)


def observed(*rtts: float) -> Link:
    link = Link()
    for rtt in rtts:
        link.observe(rtt + 0.25, 0.25, 100, 1000)
    return link


def test_a_steady_line_has_a_tight_deadline_and_a_jittery_one_a_wide_one() -> None:
    steady, jittery = observed(*[0.1] * 50), observed(*[0.02, 0.6] * 25)
    far = observed(*[0.9] * 50)
    assert steady.deadline(0.0) == STALL_SECONDS
    assert far.deadline(0.0) == pytest.approx(0.9 + MARGIN_SECONDS, abs=0.01)
    assert jittery.deadline(0.0) > 1.2


def test_signs_of_life_are_borne_for_the_line_alone_and_a_busy_verifier_for_longer() -> None:
    steady, jittery = observed(*[0.1] * 50), observed(*[0.02, 0.9] * 25)
    assert steady.signs(0.3, 48_000) == Signs(STALL_SECONDS, steady.deadline(0.3, 48_000) + BUSY_SECONDS)
    assert jittery.signs(0.3).line == jittery.deadline(0.0) > STALL_SECONDS
    steady.failed()
    assert steady.signs(0.0).line == steady.deadline(0.0) > STALL_SECONDS


def test_failures_double_the_deadline_up_to_a_limit_and_success_resets_it() -> None:
    link = observed(0.1)
    before = link.deadline(0.0)
    link.failed()
    link.failed()
    assert link.deadline(0.0) == pytest.approx(4 * before)
    for _ in range(2000):
        link.failed()
    assert link.deadline(1.0) == MAX_DEADLINE_SECONDS + SERVER_SLACK
    link.observe(0.1, 0.0, 0, 0)
    assert link.deadline(0.0) <= before


def test_states() -> None:
    link = observed(0.1)
    states = [link.state]
    link.failed()
    states.append(link.state)
    for _ in range(RECENT):
        link.observe(0.1, 0.0, 0, 0)
        states.append(link.state)
    assert states == ["online", "offline", *["degraded"] * (RECENT - 1), "online"]
    assert observed(2 * SLOW_SECONDS).state == "degraded"


@settings(deadline=None, max_examples=10)
@given(st.integers())
def test_probe_delays_double_with_jitter_within_their_bounds(seed: int) -> None:
    least, most = PROBE_SECONDS
    link = Link(random.Random(seed))
    delays = [link.next_probe_delay() for _ in range(1100)]
    for number, delay in enumerate(delays[:5]):
        assert least * 2**number <= delay <= 2 * least * 2**number
    assert all(most / 2 <= delay <= most for delay in delays[5:])
    assert len(set(delays)) > 1000
    link.observe(0.1, 0.0, 0, 0)
    assert link.next_probe_delay() <= 2 * least


def test_a_large_request_gets_the_time_that_it_takes_to_go_up() -> None:
    link = observed(0.1)
    assert link.deadline(0.0, 96_000) == pytest.approx(link.deadline(0.0) + 96_000 / FIRST_BYTES_PER_SECOND)
    link.observe(1.1, 0.0, 100 + 100_000, 0)
    assert link.deadline(0.0, 96_000) == pytest.approx(link.deadline(0.0) + 0.96)


def test_a_greeting_tells_the_round_trip_until_a_round_does() -> None:
    link = Link()
    assert link.state == "online" and link.rtt_seconds is None
    assert link.deadline(2.0) == FIRST_DEADLINE_SECONDS + SERVER_SLACK * 2.0
    link.greeted(0.3)
    assert link.rtt_seconds == 0.3
    assert link.deadline(0.0) == FIRST_DEADLINE_SECONDS
    link.observe(0.1, 0.0, 0, 0)
    assert link.rtt_seconds == pytest.approx(0.1)


def test_what_a_person_said_goes_before_what_was_measured() -> None:
    link = Link(read_seconds=20.0, connect_seconds=4.0)
    assert link.deadline(0.5) == 20.0 and Link(read_seconds=0.4).signs(5.0) == Signs(0.4, 0.4)
    for _ in range(4):
        link.observe(0.1, 0.0, 100, 100)
    link.failed()
    assert link.deadline(5.0) == 20.0
    assert link.deadline(5.0, 480_000) == pytest.approx(30.0)  # A long prompt still takes its time on the way up.
    assert link.probe_deadline() == pytest.approx(4.0 + 3 * 0.1 + 1.5)
