"""Drafts are made where they have paid: simulated rounds, whose times a test chooses."""

from __future__ import annotations

from drafter.payoff import LONGEST, TRIALS, Payoff

DRAFTED, PLAIN = TRIALS[True].rounds, TRIALS[False].rounds


def run(payoff: Payoff, rounds: int, drafted: float, plain: float, *, tau: int = 3, line: float = 0.0) -> list[bool]:
    """Rounds of `drafted` seconds, half of them for the draft, or of `plain` seconds. Returns which had a draft."""
    kinds = []
    for _ in range(rounds):
        kinds.append(payoff.pays)
        if payoff.pays:
            payoff.ended(tau, line + drafted, drafting=drafted / 2, line=line, drafted=True)
        else:
            payoff.ended(1, line + plain, drafting=0.0, line=line, drafted=False)
    return kinds


def test_where_a_round_without_a_draft_gains_more_a_second_nothing_is_drafted() -> None:
    kinds = run(Payoff(), 100, drafted=0.012, plain=0.002)
    assert all(kinds[:DRAFTED]) and not any(kinds[DRAFTED:])


def test_where_drafts_gain_more_a_few_rounds_go_without_and_no_more() -> None:
    kinds = run(Payoff(), 3 * LONGEST, drafted=0.012, plain=0.008)
    assert kinds.count(False) <= 6 * PLAIN and kinds[-1]


def test_over_a_slow_line_nothing_is_tried() -> None:
    """A round without a draft waits for the line as long, and brings one token."""
    assert all(run(Payoff(), 3 * LONGEST, drafted=0.012, plain=0.002, line=0.1))


def test_what_did_not_pay_is_tried_again() -> None:
    payoff = Payoff()
    run(payoff, 50, drafted=0.012, plain=0.002)
    kinds = run(payoff, LONGEST + DRAFTED, drafted=0.004, plain=0.002)
    assert kinds.count(True) >= DRAFTED and payoff.pays, "drafts have become cheaper"
    run(payoff, 2 * LONGEST, drafted=0.012, plain=0.002)
    assert not payoff.pays


def test_what_the_drafter_needs_to_read_a_question_counts() -> None:
    """Rounds with drafts are a little better here, but each answer has only eight, and its question is long."""
    payoff = Payoff()
    for _ in range(100):
        if payoff.pays:
            payoff.opened(2, 0.06)
        run(payoff, 8 if payoff.pays else 24, drafted=0.012, plain=0.005)
    assert not payoff.pays


def test_a_draft_that_was_ready_counts_as_one_and_ends_no_trial_of_rounds_without() -> None:
    payoff = Payoff()
    run(payoff, DRAFTED, drafted=0.012, plain=0.002)
    assert not payoff.pays
    for _ in range(PLAIN):
        payoff.ended(3, 0.012, drafting=0.0, line=0.0, drafted=True)
    assert not payoff.pays
