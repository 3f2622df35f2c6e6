"""What the times of rounds teach: only rounds that are like others tell of others."""

from __future__ import annotations

import pytest

from app.events import RoundReport
from app.remotes.connection import Connection
from app.remotes.source import AddressSource
from app.reply.round_meter import LONGEST_READ, RoundMeter
from drafter.runtime import Drafter
from drafter.shelf import Drafters
from models.config import DIGEST_BYTES
from remote import RoundReply
from remote.clock import Clock
from remote.protocol import Verdict
from remote.response import Traffic

DRAFT, WAIT, SERVER, RTT = 0.01, 0.3, 0.05, 0.08
"""Seconds of a round: its draft, the wait for memory after it, the verifier's own time, and the line."""


class StillClock(Clock):
    """Stands still until a test lets time pass."""

    def __init__(self) -> None:
        self.at = 100.0

    def now(self) -> float:
        return self.at


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
def connection(clock: StillClock, drafter: Drafter) -> Connection:
    """Before it connects: nothing is known of verifier and line."""
    return Connection(AddressSource("http://127.0.0.1:9"), drafters=Drafters(drafter), clock=clock)


def play(
    meter: RoundMeter,
    clock: StillClock,
    *,
    unread: int = 0,
    exchanges: int = 1,
    drafted_here: bool = True,
    levels: int = 2,
) -> None:
    """One round that brings 3 tokens, or a single one if there is no draft."""
    accepted = (0, 1) if levels else ()
    verdict = Verdict(1, accepted, 7, 9, bytes(DIGEST_BYTES), False, SERVER)
    reply = RoundReply(verdict, None, RTT, Traffic(), exchanges)  # type: ignore[arg-type]
    meter.begin(adopts=False)
    draft = DRAFT if levels else 0.0
    clock.at += draft
    meter.drafted(made=bool(levels))
    clock.at += WAIT
    meter.sent(unread)
    clock.at += RTT + SERVER
    meter.returned(reply, nodes=20)
    report = RoundReport(levels, 20, 3.0, 1 + len(accepted), None, draft, SERVER, RTT)
    meter.ended(report, drafted_here=drafted_here)


def test_rounds_that_are_like_others_teach_what_a_round_takes(connection: Connection, clock: StillClock) -> None:
    meter = RoundMeter(connection, clock, opening=True)
    play(meter, clock)
    assert not connection.speed.modes._rounds["edge"].count, "a verifier's first forward takes longer than others"
    for _ in range(20):
        play(meter, clock)
    assert meter.after_usual and meter.draft_seconds == pytest.approx(DRAFT)
    rounds = connection.speed.modes._rounds["edge"]
    assert rounds.seconds / rounds.count == pytest.approx(DRAFT + WAIT + SERVER), "all but the line"
    assert connection.speed.costs._wait == pytest.approx(WAIT + RTT, rel=0.01), "all but the verifier"
    assert connection.speed.server_seconds == pytest.approx(SERVER)


@pytest.mark.parametrize(
    ("odd", "counts", "judged"),
    [
        ({"unread": 5}, True, True),
        ({"unread": LONGEST_READ + 1}, True, False),
        ({"exchanges": 2}, False, False),
        ({"drafted_here": False}, False, True),
    ],
)
def test_a_round_that_is_not_like_others(
    connection: Connection, clock: StillClock, odd: dict[str, int], counts: bool, judged: bool
) -> None:
    """A prompt to read, something to send again, or an answer that was written offline."""
    meter = RoundMeter(connection, clock, opening=False)
    play(meter, clock)
    nodes, paid = connection.speed.costs._sums[0], connection.speed.payoff._rounds[True].count
    play(meter, clock, **odd)  # type: ignore[arg-type]
    assert connection.speed.payoff._rounds[True].count == paid, "it says nothing about drafts"
    assert bool(connection.speed.modes._rounds["edge"].count) == counts
    assert (connection.speed.costs._sums[0] != nodes) == judged
    assert meter.after_usual == ("drafted_here" in odd)


def test_after_a_round_that_does_not_count_the_wait_for_its_memory_does_not_either(
    connection: Connection, clock: StillClock
) -> None:
    meter = RoundMeter(connection, clock, opening=True)
    play(meter, clock, unread=40)
    play(meter, clock)
    meter.begin(adopts=False)
    assert connection.speed.costs._wait == pytest.approx(RTT)


def test_rounds_with_and_without_a_draft_are_compared_by_all_that_they_took(
    connection: Connection, clock: StillClock
) -> None:
    meter = RoundMeter(connection, clock, opening=True)
    for levels in (2, 0) * 10:
        play(meter, clock, levels=levels)
    kinds = connection.speed.payoff._rounds
    assert kinds[True].rate == pytest.approx(3 / (DRAFT + WAIT + RTT + SERVER))
    assert kinds[False].rate == pytest.approx(1 / (WAIT + RTT + SERVER))
    assert kinds[True].amounts[1] == pytest.approx(RTT + (WAIT + SERVER) / 3), "the line cannot be shortened"


def test_of_the_first_round_only_its_draft_counts(connection: Connection, clock: StillClock) -> None:
    """The drafter reads the question for it. Without a draft, there is nothing to count."""
    play(RoundMeter(connection, clock, opening=False), clock)
    kind = connection.speed.payoff._rounds[True]
    assert not kind._sums
    play(RoundMeter(connection, clock, opening=True), clock, unread=40)
    assert kind._sums[:2] == (pytest.approx(DRAFT), 2) and not kind.count
    play(RoundMeter(connection, clock, opening=True), clock, unread=40, levels=0)
    assert kind._sums[1] == 2
