"""The server drafts where a draft earns its time, and prunes devices' drafts where others need that time more."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import pytest

from models.tree import Candidates, DraftTree
from remote.verifier.drafting.pruner import WINDOW, Pruner
from remote.verifier.drafting.stream_payoff import PLAIN, SAVED, Judged, StreamPayoff

# ---- which draft pays ------------------------------------------------------------------------------------------------


@pytest.fixture
def payoff() -> StreamPayoff:
    """After the rounds without a draft that come first, with a full allowance. Calls take 1 ms."""
    made = StreamPayoff()
    assert not made.pays, "what a round without a draft takes comes first"
    for _ in range(PLAIN):
        made.gained(tokens=1, nodes=0, seconds=0.0, drafted=False)
    made.allowance.left = SAVED
    assert made.pays, "nothing else is known"
    made.calls.add(0.004, 4)
    rounds(made, 30, sessions=1)
    return made


def rounds(payoff: StreamPayoff, count: int, sessions: int) -> None:
    """Rounds of a target that needs 3 ms, and 1 ms for each row, in forwards that differ as they do in life."""
    for at in range(count):
        rows = sessions + at % 3
        payoff.ran(Judged((), None, [], rows, 0.003 + 0.001 * rows, sessions), 1)


def test_it_drafts_alone_not_in_company_and_again_when_the_others_have_left(payoff: StreamPayoff) -> None:
    alone = payoff.cost
    assert payoff.pays and alone is not None
    assert (alone.round, alone.level, alone.node) == pytest.approx((0.004, 0.001, 0.001), rel=0.2)
    rounds(payoff, 60, sessions=16)
    shared = payoff.cost
    assert not payoff.pays and shared is not None
    assert (shared.round, shared.node) == pytest.approx((0.019 / 16, 0.001), rel=0.2), "a session pays its share"
    rounds(payoff, 60, sessions=1)
    assert payoff.pays
    for _ in range(30):
        payoff.guessed(False)
    assert not payoff.pays, "its first guesses are wrong"


# ---- pruning ---------------------------------------------------------------------------------------------------------

#            0
#      1           2        under it a chain 3, 4, 5
FORK = DraftTree([1, 2, 3, 4, 5, 6], [-1, -1, -1, 0, 3, 4])


@pytest.fixture
def clock() -> SimpleNamespace:
    return SimpleNamespace(now=100.0)


@pytest.fixture
def pruner(clock: SimpleNamespace) -> Pruner:
    made = Pruner(lambda: clock.now)
    for rows in (1, 8, 32) * 20:  # A row takes a millisecond.
        made.forwards.add(1, rows, 0.002 + 0.001 * rows)
    return made


def ran(pruner: Pruner, clock: SimpleNamespace, tokens: int) -> None:
    """The engine was busy with rounds of the session `a` all the while."""
    for _ in range(20):
        clock.now += 0.1
        pruner.ran("a", Judged((), None, [7] * tokens, rows=1000, seconds=0.1, sessions=1), pending=1000)


def learn(pruner: Pruner, accepted: Sequence[int]) -> None:
    for _ in range(400):
        pruner.chances.learn(FORK, accepted, 9)


def test_alone_and_drawn_drafts_stay_whole(pruner: Pruner, clock: SimpleNamespace) -> None:
    learn(pruner, [])
    ran(pruner, clock, tokens=200)
    assert pruner.price("a") == 0.0 and pruner.kept("a", FORK) is None and pruner.price("b") > 0.0
    drawn = DraftTree([1], [-1], candidates={-1: Candidates([1, 2], [3, 1])})
    assert pruner.kept("b", DraftTree.chain([1])) is not None and pruner.kept("b", drawn) is None


def test_in_company_nodes_stay_while_they_gain_more_than_others_would_in_their_time(
    pruner: Pruner, clock: SimpleNamespace
) -> None:
    learn(pruner, [0, 3, 4, 5])
    ran(pruner, clock, tokens=30)
    assert pruner.price("b") == pytest.approx(0.001 * 300, rel=0.2)  # 300 tokens a second.
    kept = pruner.kept("b", FORK)
    assert kept is not None and kept.tolist() == [True, False, False, True, True, True]
    ran(pruner, clock, tokens=200)
    kept = pruner.kept("b", FORK)
    assert kept is not None and not kept.any(), "a row takes as long as two tokens of somebody else"
    busy = pruner.price("b")
    clock.now += WINDOW / 2
    assert 0 < pruner.price("b") < busy / 2, "the engine has rested half the time"
    clock.now += WINDOW
    assert pruner.price("b") == 0.0, "the others have gone"
