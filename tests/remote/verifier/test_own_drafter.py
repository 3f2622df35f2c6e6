"""The verifier drafts where a draft earns its time, and not where many share a forward."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import pytest

from drafter.ngram import save_datastore
from drafter.pacer import SHARE
from drafter.runtime import Drafter
from models.config import DATASTORE, read_config, write_config
from models.engines.target import load_target
from models.engines.torch_engine import TorchEngine
from remote.verifier.own_drafter import FIRST_REST, PLAIN, REST, SAVED, TRIAL, Judged, OwnDrafter


@pytest.fixture
def own(tiny_pair: Path) -> OwnDrafter:
    return OwnDrafter(Drafter.load(tiny_pair / "drafter"), TorchEngine(load_target(str(tiny_pair / "target")).model))


def rounds(own: OwnDrafter, count: int, sessions: int) -> None:
    """Rounds of a target that needs 3 ms, and 1 ms for each row, in forwards that differ as they do in life."""
    for at in range(count):
        rows = sessions + at % 3
        own.ran(Judged((), None, [], rows, 0.003 + 0.001 * rows, sessions), 1)


def test_it_drafts_alone_not_in_company_and_again_when_the_others_have_left(own: OwnDrafter) -> None:
    assert not own.pays, "what a round without a draft takes comes first"
    plainly(own)
    assert own.pays
    own.calls.add(0.004, 4)
    rounds(own, 30, sessions=1)
    assert own.pays
    rounds(own, 30, sessions=16)
    assert not own.pays
    rounds(own, 60, sessions=1)
    assert own.pays


def plainly(own: OwnDrafter) -> None:
    """The rounds without a draft that come first, and pay for a trial."""
    for _ in range(PLAIN):
        own.gained(None, tokens=1, nodes=0, seconds=0.0)
    own.allowance.left = SAVED


def test_it_stops_where_its_first_guesses_are_wrong(own: OwnDrafter) -> None:
    plainly(own)
    own.calls.add(0.004, 4)
    rounds(own, 30, sessions=1)
    for _ in range(30):
        own.guessed(False)
    assert not own.pays


def test_it_stops_where_rounds_without_its_drafts_gain_more_and_is_tried_again(own: OwnDrafter) -> None:
    plainly(own)
    own.calls.add(0.004, 4)
    rounds(own, 30, sessions=1)
    own._rests = {"drafting": REST, "looking": REST}
    tried, count = 0, 2 * TRIAL * 20 * 4  # Each trial costs the time of more than three tokens.
    for _ in range(count):
        tried += own.pays
        if own.pays:
            own.gained(own.drafting, tokens=2, nodes=8, seconds=0.010)  # 2 tokens in 22 ms; without, 1 in 4 ms.
        else:
            own.gained(None, tokens=1, nodes=0, seconds=0.0)
        assert tried * (22 / 4 - 2) <= SAVED + 4 + SHARE * count
    assert tried == TRIAL and not own.pays and own.rate == 0
    for _ in range(REST):
        own.gained(own.looking, tokens=1, nodes=0, seconds=0.0)
    assert own.pays and own.rate == math.inf


def test_what_does_not_pay_is_tried_less_and_less_often(own: OwnDrafter) -> None:
    plainly(own)
    own.calls.add(0.04, 4)  # A call takes more than a round.
    rounds(own, 30, sessions=1)
    tried = []
    for at in range(8 * FIRST_REST):
        if own.calls.count == 1 and own.drafting.rested == 0 and at:
            tried.append(at)
        own.gained(None, tokens=1, nodes=0, seconds=0.0)
    assert tried == [number * FIRST_REST - PLAIN for number in (1, 3, 7)]


def test_what_was_not_read_is_read_only_where_that_is_within_the_allowance(own: OwnDrafter) -> None:
    plainly(own)
    own.calls.add(0.004, 4)
    rounds(own, 30, sessions=1)
    assert own.reads(1000), "what it takes is not known"
    own.read(100, 0.002)
    assert own.reads(100) and not own.reads(5000) and own.reads(1)
    for _ in range(TRIAL):
        own.gained(own.drafting, tokens=8, nodes=8, seconds=0.004)
    assert own.reads(5000), "drafts pay"
    for _ in range(4):
        own.read(100, 0.2)  # And what is read for them takes longer than they save.
    assert not own.reads(5000) and own.pays, "what was read already was not in vain"


def test_nothing_is_tried_before_the_time_for_it_is_saved_up(own: OwnDrafter) -> None:
    own.warm()
    assert own.calls.count == own.reading.count == 1, "so much is known before any answer"
    own.calls.seconds, own.reading.seconds = 0.004, 0.032  # Four calls, and a millisecond a token.
    plain = 0
    rounds(own, 30, sessions=1)
    while not (own.pays and own.reads(40)):
        own.gained(None, tokens=1, nodes=0, seconds=0.0)
        plain += 1
    assert 0.05 * plain * 4 >= 40, "tokens at 4 ms each, for 40 ms"


def test_what_a_round_takes_beside_its_forward_counts_for_larger_drafts(own: OwnDrafter) -> None:
    own.calls.add(0.004, 4)
    rounds(own, 30, sessions=1)
    before = own.cost
    own.beside.add(0.01)
    after = own.cost
    assert before is not None and after is not None and after.round == pytest.approx(before.round + 0.01)


def test_in_company_a_round_costs_a_session_its_share(own: OwnDrafter) -> None:
    own.calls.add(0.004, 4)
    rounds(own, 60, sessions=1)
    alone = own.cost
    rounds(own, 60, sessions=16)
    shared = own.cost
    assert alone is not None and shared is not None
    assert (alone.round, alone.level) == pytest.approx((0.004, 0.001), rel=0.2)
    assert shared.round == pytest.approx(0.019 / 16, rel=0.2)
    assert alone.node == pytest.approx(0.001, rel=0.2) and shared.node == pytest.approx(0.001, rel=0.2)


REPEATED = [7, 8, 9, 10, 11, 12, 13, 14] * 3


def test_what_was_said_before_is_a_draft_where_it_pays(own: OwnDrafter) -> None:
    drafts = own.drafts()
    assert len(drafts.looked_up(REPEATED)) == 0, "what a row costs is not known yet"
    plainly(own)
    own.calls.add(0.04, 4)
    rounds(own, 30, sessions=1)
    assert not own.pays and own.rate == 0
    guess = drafts.looked_up([*REPEATED, 7, 8])
    assert guess.tokens.tolist()[:3] == [9, 10, 11] and len(guess) <= own.bounds.nodes
    rounds(own, 60, sessions=64)
    crowded = drafts.looked_up([*REPEATED, 7, 8])
    assert len(crowded) < len(guess), "a row costs about as much as a token of somebody else"
    rounds(own, 90, sessions=1)
    assert len(drafts.looked_up([*REPEATED, 7, 8])) > 0
    for _ in range(30):
        drafts.looked_up([*REPEATED, 7, 8])
        drafts.looked_up([*REPEATED, 7, 8, 99])  # What followed before does not follow again.
    assert len(drafts.looked_up([*REPEATED, 7, 8])) == 0


def test_nothing_is_looked_up_where_that_gains_nothing(own: OwnDrafter) -> None:
    plainly(own)
    own.calls.add(0.04, 4)
    rounds(own, 30, sessions=1)
    assert own.looks
    for _ in range(TRIAL):
        own.gained(own.looking, tokens=1, nodes=2, seconds=0.001)
    assert not own.looks and len(own.drafts().looked_up(REPEATED)) == 0
    for _ in range(REST):
        own.gained(None, tokens=1, nodes=0, seconds=0.0)
    assert own.looks


def test_the_drafters_answers_in_training_are_looked_up(tiny_pair: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny_pair / "drafter", tmp_path / "drafter"))
    save_datastore(folder / DATASTORE, [[3, 4, 5, 6, 7, 8]] * 3)
    write_config(folder, read_config(folder))
    own = OwnDrafter(Drafter.load(folder), TorchEngine(load_target(str(tiny_pair / "target")).model))
    plainly(own)
    own.calls.add(0.04, 4)
    rounds(own, 30, sessions=1)
    assert own.drafts().looked_up([20, 21, 3, 4]).tokens.tolist()[:2] == [5, 6]


def test_the_drafters_draft_is_taken_where_it_gains_more(own: OwnDrafter) -> None:
    own.calls.add(0.002, 4)
    rounds(own, 30, sessions=1)
    plainly(own)
    drafts = own.drafts()
    assert own.pays and own.rate == math.inf and len(drafts.looked_up(REPEATED)) == 0
    for _ in range(40):
        own.gained(own.drafting, tokens=6, nodes=8, seconds=0.004)
    cost = own.cost
    assert cost is not None and own.rate == pytest.approx(6 / (0.004 + cost.round + 8 * cost.node), rel=0.05)
    for _ in range(40):
        own.gained(own.drafting, tokens=2, nodes=0, seconds=0.002)
    assert own.rate > 0 and len(drafts.looked_up(REPEATED)) > 0  # More tokens, and no call of the drafter.
    for _ in range(40):
        own.gained(own.drafting, tokens=60, nodes=8, seconds=0.004)
    assert len(drafts.looked_up(REPEATED)) == 0
