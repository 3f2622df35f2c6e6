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
from remote.protocol import Verdict
from remote.response import Traffic
from tests.support.clock import HeldClock

DRAFT, WAIT, SERVER, RTT = 0.01, 0.3, 0.05, 0.08
"""Seconds of a round: its draft, the wait for memory after it, the verifier's own time, and the line."""


@pytest.fixture
def clock() -> HeldClock:
    return HeldClock()


@pytest.fixture
def connection(clock: HeldClock, drafter: Drafter) -> Connection:
    """Before it connects: nothing is known of verifier and line."""
    return Connection(AddressSource("http://127.0.0.1:9"), drafters=Drafters(drafter), clock=clock)


def play(
    meter: RoundMeter, clock: HeldClock, *, unread: int = 0, exchanges: int = 1, drafted_here: bool = True
) -> None:
    """One round that brings 3 tokens."""
    verdict = Verdict(1, (0, 1), 7, 9, bytes(DIGEST_BYTES), False, SERVER)
    reply = RoundReply(verdict, None, RTT, Traffic(), exchanges)  # type: ignore[arg-type]
    meter.begin(adopts=False)
    clock.advance(DRAFT)
    meter.drafted(made=True)
    clock.advance(WAIT)
    meter.sent(unread)
    clock.advance(RTT + SERVER)
    meter.returned(reply, nodes=20)
    report = RoundReport(2, 20, 3.0, 3, None, DRAFT, SERVER, RTT)
    meter.ended(report, drafted_here=drafted_here)


def test_rounds_that_are_like_others_teach_what_a_round_takes(connection: Connection, clock: HeldClock) -> None:
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
    connection: Connection, clock: HeldClock, odd: dict[str, int], counts: bool, judged: bool
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
