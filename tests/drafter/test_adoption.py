"""Drafting ahead is used where rounds have shown that it pays, and now and then to see whether it still does."""

from __future__ import annotations

import pytest

from drafter.adoption import CALLS, TRIAL, Adoption

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


def test_nothing_is_tried_before_a_round_without_it_is_known():
    adoption = Adoption()
    assert not any(adoption.worth(LEVEL, shared=False) for _ in range(2 * TRIAL))
    assert not adoption.pays(7.0)
    adoption.returned(0.1, 0.02, ahead=False)
    adoption.sent(0.03, adopted=False)
    assert adoption.worth(LEVEL, shared=False) and adoption.pays(7.0)


def test_what_pays_no_more_is_noticed_and_what_pays_again_too():
    adoption = taught()
    for _ in range(600):
        adoption.gained(7.0, 2, adopted=True)
    assert shares(adoption) == (pytest.approx(RARE), pytest.approx(RARE))
    for _ in range(1500):  # Rounds in which it was not tried, so what was found fades.
        adoption.worth(LEVEL, shared=False)
    assert shares(adoption) == (pytest.approx(USUAL), pytest.approx(USUAL))
