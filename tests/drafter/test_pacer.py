"""What pays is learnt from rounds: the faster way is gone, and the other one tried less and less often."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drafter.adoption import CALLS, TRIAL, Adoption
from drafter.cost import LONGEST_WAIT, WAITING, Cost, CostMeter
from drafter.pacer import Pacer, Trial
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


def test_a_trial_that_wins_changes_the_way_and_what_is_not_worth_trying_is_not_tried() -> None:
    pacer = Pacer("left", TRIALS, longest=LONGEST)
    go(pacer, 100, "left")
    while not pacer.trying:
        go(pacer, 1, "left")
    ways = go(pacer, 2 + REST + 3 + 1, "right")
    assert ways == "r" * (2 + REST) + "lll" + "r"
    pacer = Pacer("left", TRIALS, longest=LONGEST)
    assert go(pacer, 100, "left", worth=False) == "l" * 100
    assert pacer.went("left", "left") and pacer.way == "right"
    pacer.went("right", "left", worth=False)
    assert pacer.way == "left" and not pacer.trying


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


def test_where_drafts_gain_more_a_few_rounds_go_without_and_over_a_slow_line_none() -> None:
    kinds = drafts(Payoff(), 3 * LONGEST_REST, drafted=0.012, plain=0.008)
    assert kinds.count(False) <= 6 * PLAIN and kinds[-1]
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


# ---- drafting ahead --------------------------------------------------------------------------------------------------


LEVEL = 0.002


def taught(
    *, flight=0.06, fresh=0.02, adopted=0.001, hits=0.4, prepared=6.0, anew=6.0, server=0.02, beside=0.02, rounds=400
) -> Adoption:
    """An adoption after many rounds of one kind: seconds, and tokens gained if a prepared draft expects 7."""
    adoption = Adoption()
    for number in range(rounds):
        adoption.sent(fresh, adopted=False)
        adoption.sent(adopted, adopted=True)
        adoption.returned(flight, server, ahead=False)
        adoption.returned(flight, beside, ahead=True)
        adoption.tried((number * hits) % 1 + hits >= 1)
        adoption.gained(7.0, round(prepared), adopted=True)
        adoption.gained(7.0, round(anew), adopted=False)
    return adoption


def shares(adoption: Adoption, *, shared=False) -> tuple[float, float]:
    """How often a prepared draft is used, and how often anything is drafted ahead."""
    times = 10 * TRIAL
    pays = sum(adoption.pays(7.0) for _ in range(times)) / times
    return pays, sum(adoption.worth(LEVEL, shared=shared) for _ in range(times)) / times


RARE, USUAL = 1 / TRIAL, 1 - 1 / TRIAL


@pytest.mark.parametrize(
    ("kind", "pays", "worth"),
    [  # `shared`: the verifier runs on this machine.
        ({}, USUAL, USUAL),
        ({"prepared": 5.0}, USUAL, USUAL),  # A fifth fewer tokens, in three quarters of the time.
        ({"prepared": 4.0}, RARE, RARE),
        ({"prepared": 5.0, "flight": 0.3}, RARE, RARE),  # Over a longer line 20 ms are worth less.
        ({"hits": 0.01}, USUAL, RARE),  # Each try may cost half a call.
        ({"flight": CALLS * LEVEL / 2, "server": 0.001, "beside": 0.001}, USUAL, 0.0),
        ({"beside": 0.05}, USUAL, USUAL),  # A verifier elsewhere has other reasons to be slow.
        ({"beside": 0.05, "shared": True}, USUAL, RARE),
    ],
)
def test_it_follows_what_rounds_have_shown(kind, pays, worth):
    shared = (kind := {**kind}).pop("shared", False)
    assert shares(taught(**kind), shared=shared) == (pytest.approx(pays), pytest.approx(worth))


# ---- what rounds take ------------------------------------------------------------------------------------------------


milliseconds = st.floats(1e-3, 0.2)


def metered(cost: Cost, rounds: int, sizes: tuple[int, ...]) -> CostMeter:
    meter = CostMeter()
    for number in range(rounds):
        nodes = sizes[number % len(sizes)]
        meter.drafted(1 + number % 8, (1 + number % 8) * cost.level)
        meter.judged(nodes, cost.round + nodes * cost.node)
    return meter


@given(milliseconds, milliseconds, st.floats(1e-4, 5e-3))
def test_rounds_of_several_sizes_tell_all_three(round_seconds, level, node):
    cost = metered(Cost(round_seconds, level, node), 200, (0, 4, 16, 40)).cost
    assert cost.level == pytest.approx(level)
    assert cost.node == pytest.approx(node, rel=0.05, abs=0.01 * level)
    assert cost.round == pytest.approx(round_seconds, rel=0.05, abs=15 * (0.05 * node + 0.01 * level))


def test_a_first_guess_stands_a_pause_counts_little_and_a_line_that_changes_is_followed():
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
    meter = metered(Cost(0.02, 0.002, 0.0005), 100, (0, 8, 16))
    before = meter.cost
    meter.judged(8, 60.0)
    meter.drafted(8, 60.0)
    assert meter.cost.round < 1.2 * before.round and meter.cost.level < 1.3 * before.level
    for nodes in (0, 8, 16) * 40:
        meter.judged(nodes, 0.3 + nodes * 0.0005)
    assert meter.cost.round == pytest.approx(0.3, rel=0.05)
