"""A device's draft is pruned where others would gain more in the time of its rows, and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from models.tree import Candidates, DraftTree
from remote.verifier.own_drafter import Judged
from remote.verifier.pruner import TRUST, WINDOW, Chances, Pruner

#            0
#      1           2        under it a chain 3, 4, 5
FORK = DraftTree(np.array([1, 2, 3, 4, 5, 6]), np.array([-1, -1, -1, 0, 3, 4]))


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def pruner(clock: Clock) -> Pruner:
    made = Pruner(clock)
    for rows in (1, 8, 32) * 20:  # A row takes a millisecond.
        made.forwards.add(1, rows, 0.002 + 0.001 * rows)
    return made


def ran(pruner: Pruner, clock: Clock, session: str, tokens: int, seconds: float) -> None:
    """The engine was busy with a round of this session all the while."""
    clock.now += seconds
    pruner.ran(session, Judged((), None, [7] * tokens, rows=1000, seconds=seconds, sessions=1), pending=1000)


def learn(chances: Chances, tree: DraftTree, accepted: Sequence[int], bonus: int, times: int) -> None:
    for _ in range(times):
        chances.learn(tree, accepted, bonus)


def test_chances_are_what_nodes_of_a_kind_have_come_to() -> None:
    chances = Chances()
    assert chances.of(FORK).tolist() == [1.0] * 6, "nothing is known"
    learn(chances, FORK, [0, 3], 9, times=400)  # The second of the chain, 5, was wrong.
    found = chances.of(FORK)
    few = TRUST / (TRUST + 400)
    assert found.tolist() == pytest.approx([1, few, few, 1, few, few**2])
    assert (np.diff(found[[0, 3, 4, 5]]) <= 0).all()


def test_what_follows_the_last_accepted_node_judges_all_its_children_also_those_left_out() -> None:
    chances = Chances()
    learn(chances, FORK, [], 2, times=400)  # The bonus is the second of three: it was right.
    first, second, third, *_ = chances.of(FORK).tolist()
    assert second == 1.0 and first == third == pytest.approx(TRUST / (TRUST + 400))


def test_chances_change_with_the_drafters() -> None:
    chances = Chances()
    learn(chances, FORK, [], 9, times=5000)
    assert chances.of(FORK)[0] < 0.1
    learn(chances, FORK, [0], 9, times=1500)
    assert chances.of(FORK)[0] > 0.7


def test_alone_a_draft_stays_whole(pruner: Pruner, clock: Clock) -> None:
    learn(pruner.chances, FORK, [], 9, times=400)
    for _ in range(10):
        ran(pruner, clock, "a", tokens=50, seconds=0.1)
    assert pruner.price("a") == 0.0 and pruner.kept("a", FORK) is None
    assert pruner.price("b") > 0.0


def test_in_company_a_row_costs_what_the_others_gain_in_its_time(pruner: Pruner, clock: Clock) -> None:
    for _ in range(20):
        ran(pruner, clock, "a", tokens=20, seconds=0.05)
        ran(pruner, clock, "b", tokens=10, seconds=0.05)
    assert pruner.price("a") == pytest.approx(0.001 * 100, rel=0.2)  # 100 tokens a second.
    assert pruner.price("b") == pytest.approx(0.001 * 200, rel=0.2)
    clock.now += WINDOW / 2
    assert 0 < pruner.price("b") < 0.07, "the engine has rested half the time"
    clock.now += WINDOW
    assert pruner.price("b") == 0.0, "the others have gone"


def test_nodes_stay_while_they_are_worth_their_rows(pruner: Pruner, clock: Clock) -> None:
    learn(pruner.chances, FORK, [0, 3, 4, 5], 9, times=400)
    for _ in range(20):
        ran(pruner, clock, "a", tokens=30, seconds=0.1)
    kept = pruner.kept("b", FORK)
    assert kept is not None and kept.tolist() == [True, False, False, True, True, True]
    for _ in range(20):
        ran(pruner, clock, "a", tokens=200, seconds=0.1)
    kept = pruner.kept("b", FORK)
    assert kept is not None and not kept.any(), "a row takes as long as two tokens of somebody else"


def test_a_drawn_tree_stays_whole(pruner: Pruner, clock: Clock) -> None:
    for _ in range(20):
        ran(pruner, clock, "a", tokens=200, seconds=0.1)
    drawn = DraftTree(np.array([1]), np.array([-1]), candidates={-1: Candidates(np.array([1, 2]), np.array([3, 1]))})
    assert pruner.kept("b", DraftTree.chain([1])) is not None and pruner.kept("b", drawn) is None
