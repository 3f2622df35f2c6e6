"""The choice of the mode follows from the rounds and the round trip, and not from noise."""

from __future__ import annotations

import pytest

from app.remotes.mode_meter import RETRIED, ModeMeter

EDGE, HOSTED = (8, 0.060, 0.040), (8, 0.055)
"""An edge round: tokens, seconds without the line, seconds at the verifier. A hosted round: tokens, seconds."""
ROUNDS = 3
"""Rounds of an answer."""


def meter(*, edge: int = 0, hosted: int = 0, drafts: bool = True) -> ModeMeter:
    """A meter after so many answers in each mode."""
    made = ModeMeter()
    made.drafts = drafts
    for answer in range(edge + hosted):
        for number in range(ROUNDS):
            if answer < edge:
                made.edge(*EDGE, opening=number == 0)
            else:
                made.hosted(*HOSTED, opening=number == 0)
    return made


@pytest.mark.parametrize(
    ("rtt", "drafts", "mode"), [(0.001, True, "edge"), (0.1, True, "hosted"), (0.01, False, "edge")]
)
def test_before_any_round_the_round_trip_decides(rtt: float, drafts: bool, mode: str) -> None:
    assert meter(drafts=drafts).choose(rtt) == mode


def test_a_verifier_that_does_not_draft_is_worth_a_stream_only_on_a_long_line() -> None:
    """DESIGN.md: edge is faster while tau * t_target > rtt + t_verify + t_draft. A stream waits for the line, too."""
    known = meter(edge=90, drafts=False)
    tau, seconds, forward = EDGE
    break_even = (tau * forward - seconds) / (1 - 1 / ROUNDS)
    assert known.rates(0.95 * break_even)["edge"] > known.rates(0.95 * break_even)["hosted"]
    assert known.rates(1.05 * break_even)["edge"] < known.rates(1.05 * break_even)["hosted"]


def test_rates_follow_the_line_at_once() -> None:
    known = meter(edge=30, hosted=30)
    assert known.rates(0.0)["edge"] == pytest.approx(8 / 0.060)
    assert known.rates(0.2)["edge"] == pytest.approx(8 / 0.260)
    assert known.rates(0.0)["hosted"] == pytest.approx(8 / 0.055)
    opening = known.rates(0.2)["hosted"]
    assert opening == pytest.approx(8 / (0.055 + 0.2 / ROUNDS), rel=0.02), "the first round of an answer waits for it"


def test_a_mode_that_may_be_as_fast_is_tried_and_then_the_better_one_taken() -> None:
    fresh = meter(drafts=True)
    assert fresh.choose(0.001) == "edge"
    for _ in range(12):
        fresh.edge(*EDGE)
    assert fresh.choose(0.001) == "hosted", "nobody knows how fast it is"
    fresh.hosted(8, 0.100)
    assert fresh.choose(0.001) == "hosted", "one round says little"
    for _ in range(12):
        fresh.hosted(8, 0.100)
    assert [fresh.choose(0.001) for _ in range(3 * RETRIED)] == ["edge"] * 3 * RETRIED


def test_a_mode_that_is_nearly_as_fast_is_tried_again_now_and_then_and_a_slow_one_never() -> None:
    close, far = meter(edge=9, hosted=9), meter(edge=9, hosted=9)
    for _ in range(20):
        close.edge(8, 0.057, 0.040)
    close.choose(0.0), far.choose(0.3)
    near = [close.choose(0.0) for _ in range(3 * (RETRIED + 1))]
    assert 2 <= min(near.count("edge"), near.count("hosted")) <= 4
    assert {far.choose(0.3) for _ in range(50)} == {"hosted"}


def test_what_is_said_does_not_decide_between_modes() -> None:
    known = meter(edge=9, hosted=9)
    known.mode = "hosted"
    for _ in range(6):
        known.hosted(2, 0.055)  # A text that is hard to guess in both modes.
    assert known.review(0.0) == known.choose(0.0) == "hosted"


def test_noise_switches_no_answer_and_a_change_of_the_line_does() -> None:
    known = meter(edge=9, hosted=9)
    known.mode = "edge"
    assert known.review(0.0) == "edge", "a tenth faster there is no reason in the middle of an answer"
    assert known.review(0.3) == "hosted"
    assert known.review(0.0) == "hosted"
    known.hosted(8, 60.0)
    assert known.review(0.0) == "hosted", "one pause is none of the mode's"
    for _ in range(20):
        known.hosted(8, 0.500)
    assert known.review(0.0) == "edge"


def test_an_answer_leaves_for_a_mode_of_which_nothing_is_known_only_where_the_line_is_long() -> None:
    known = meter(edge=9)
    assert (known.review(0.05), known.review(0.5)) == ("edge", "hosted")


def test_what_is_not_allowed_is_never_chosen() -> None:
    only = ModeMeter(("edge",))
    assert (only.choose(1.0), only.review(1.0), only.why(1.0)) == ("edge", "edge", "")


def test_the_reason_names_both_rates_and_the_line() -> None:
    known = meter(edge=9)
    known.choose(0.250)
    assert known.why(0.250) == "the server drafts: about 56 tokens/s (this device: 26), round trip 250 ms"
