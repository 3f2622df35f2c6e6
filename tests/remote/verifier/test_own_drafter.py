"""The verifier drafts where a draft earns its time, and not where many share a forward."""

from __future__ import annotations

from pathlib import Path

import pytest

from drafter.runtime import Drafter
from remote.verifier.engines.torch_engine import TorchEngine
from remote.verifier.own_drafter import Judged, OwnDrafter
from remote.verifier.target import load_target


@pytest.fixture
def own(tiny_pair: Path) -> OwnDrafter:
    return OwnDrafter(Drafter.load(tiny_pair / "drafter"), TorchEngine(load_target(str(tiny_pair / "target")).model))


def rounds(own: OwnDrafter, count: int, sessions: int) -> None:
    """Rounds of a target that needs 4 ms for a row, and 1 ms for each one more."""
    for _ in range(count):
        own.ran(Judged((), None, [], sessions, 0.003 + 0.001 * sessions, sessions), 1)


def test_it_drafts_alone_not_in_company_and_again_when_the_others_have_left(own: OwnDrafter) -> None:
    assert own.pays, "nothing is known yet"
    own.costs.drafted(4, 0.004)
    rounds(own, 30, sessions=1)
    assert own.pays
    rounds(own, 30, sessions=16)
    assert not own.pays
    rounds(own, 60, sessions=1)
    assert own.pays


def test_it_stops_where_its_first_guesses_are_wrong(own: OwnDrafter) -> None:
    own.costs.drafted(4, 0.004)
    rounds(own, 30, sessions=1)
    for _ in range(30):
        own.guessed(False)
    assert not own.pays


def test_in_company_a_round_costs_a_session_its_share(own: OwnDrafter) -> None:
    own.costs.drafted(4, 0.004)
    for sessions in (1, 16) * 30:
        rounds(own, 1, sessions)
    alone = own.cost
    rounds(own, 60, sessions=16)
    shared = own.cost
    assert alone is not None and shared is not None
    assert shared.round == pytest.approx(0.019 / 16, rel=0.2) and shared.round < alone.round
