"""The pacer goes the faster way, tries the other one less and less often, and notices when that has become faster."""

from __future__ import annotations

import pytest

from drafter.pacer import Pacer, Recent, Trial
from drafter.payoff import LONGEST as LONGEST_REST
from drafter.payoff import TRIALS as PAYOFF_TRIALS
from drafter.payoff import Payoff

REST, LONGEST = 10, 40
TRIALS = {"left": Trial(rounds=3, rest=REST), "right": Trial(rounds=2, rest=REST)}


def go(pacer: Pacer[str], rounds: int, better: str, *, worth: bool = True) -> str:
    """Rounds of which `better` is always the better way. Returns the initials of the ways that they went."""
    ways = ""
    for _ in range(rounds):
        ways += pacer.way[0]
        pacer.went(pacer.way, better, worth=worth)
    return ways


def test_both_ways_are_tried_first_and_then_the_slower_one_less_and_less_often() -> None:
    ways = go(Pacer("left", TRIALS, longest=LONGEST), 200, "left")
    trials = [part for part in ways.split("l") if part]
    rests = [len(part) for part in ways.split("rr")]
    assert set(trials) == {"rr"}
    assert rests[:5] == [3, REST, 2 * REST, LONGEST, LONGEST]


def test_a_trial_that_wins_changes_the_way_and_the_old_one_is_tried_after_the_shortest_rest() -> None:
    pacer = Pacer("left", TRIALS, longest=LONGEST)
    go(pacer, 100, "left")
    while not pacer.trying:
        go(pacer, 1, "left")
    ways = go(pacer, 2 + REST + 3 + 1, "right")
    assert ways == "r" * (2 + REST) + "lll" + "r"


def test_a_trial_begins_with_fresh_measurements_and_counts_only_rounds_that_went_its_way() -> None:
    pacer = Pacer("left", TRIALS, longest=LONGEST)
    begun = [pacer.went("left", "left") for _ in range(3)]
    assert begun == [False, False, True] and pacer.way == "right"
    for _ in range(5):
        assert not pacer.went("left", "left") and pacer.way == "right", "something else ruled the trial out"


def test_what_is_not_worth_trying_is_not_tried_and_a_trial_ends_when_it_is_no_longer() -> None:
    pacer = Pacer("left", TRIALS, longest=LONGEST)
    assert go(pacer, 100, "left", worth=False) == "l" * 100
    assert pacer.went("left", "left") and pacer.way == "right"
    pacer.went("right", "left", worth=False)
    assert pacer.way == "left" and not pacer.trying


def test_recent_work_weighs_more_and_a_pause_counts_little() -> None:
    recent = Recent(kept=0.9)
    assert (recent.seconds, recent.amounts, recent.rate) == (0.0, (), 0.0)
    for _ in range(100):
        recent.add(0.1, 2.0)
    assert recent.seconds == pytest.approx(0.1) and recent.rate == pytest.approx(20.0)
    recent.add(60.0, 2.0)
    assert recent.seconds < 0.13
    for _ in range(30):
        recent.add(0.2, 2.0)
    assert recent.seconds == pytest.approx(0.2, rel=0.1)
    recent.carry(1.0, 0.0)
    assert recent.seconds == pytest.approx(0.3, rel=0.1) and recent.amounts == pytest.approx((2.0,))


# ---- whether drafts pay ----------------------------------------------------------------------------------------------


DRAFTED, PLAIN = PAYOFF_TRIALS[True].rounds, PAYOFF_TRIALS[False].rounds


def drafts(payoff: Payoff, rounds: int, drafted: float, plain: float, *, tau: int = 3, line: float = 0.0) -> list[bool]:
    """Rounds of `drafted` seconds, half of them for the draft, or of `plain` seconds. Returns which had a draft."""
    kinds = []
    for _ in range(rounds):
        kinds.append(payoff.pays)
        if payoff.pays:
            payoff.ended(tau, line + drafted, drafting=drafted / 2, line=line, drafted=True)
        else:
            payoff.ended(1, line + plain, drafting=0.0, line=line, drafted=False)
    return kinds


def test_where_drafts_gain_more_a_few_rounds_go_without_and_no_more() -> None:
    kinds = drafts(Payoff(), 3 * LONGEST_REST, drafted=0.012, plain=0.008)
    assert kinds.count(False) <= 6 * PLAIN and kinds[-1]


def test_over_a_slow_line_nothing_is_tried() -> None:
    """A round without a draft waits for the line as long, and brings one token."""
    assert all(drafts(Payoff(), 3 * LONGEST_REST, drafted=0.012, plain=0.002, line=0.1))


def test_what_did_not_pay_is_tried_again() -> None:
    payoff = Payoff()
    kinds = drafts(payoff, 50, drafted=0.012, plain=0.002)
    assert all(kinds[:DRAFTED]) and not any(kinds[DRAFTED:])
    kinds = drafts(payoff, LONGEST_REST + DRAFTED, drafted=0.004, plain=0.002)
    assert kinds.count(True) >= DRAFTED and payoff.pays, "drafts have become cheaper"
    drafts(payoff, 2 * LONGEST_REST, drafted=0.012, plain=0.002)
    assert not payoff.pays


def test_what_the_drafter_needs_to_read_a_question_counts() -> None:
    """Rounds with drafts are a little better here, but each answer has only eight, and its question is long."""
    payoff = Payoff()
    for _ in range(100):
        if payoff.pays:
            payoff.opened(2, 0.06)
        drafts(payoff, 8 if payoff.pays else 24, drafted=0.012, plain=0.005)
    assert not payoff.pays


def test_a_draft_that_was_ready_counts_as_one_and_ends_no_trial_of_rounds_without() -> None:
    payoff = Payoff()
    drafts(payoff, DRAFTED, drafted=0.012, plain=0.002)
    assert not payoff.pays
    for _ in range(PLAIN):
        payoff.ended(3, 0.012, drafting=0.0, line=0.0, drafted=True)
    assert not payoff.pays
