"""A question for a server that greets and then fails is sent ever more seldom, and is never lost."""

from __future__ import annotations

import asyncio
from pathlib import Path

from app.config import Settings
from drafter.runtime import Drafter
from tests.remote.hostile import HostilePeer, answers
from tests.remote.test_hostile_verifier import card_of
from tests.remote.toy_verifier import http
from tests.support.clock import FastClock
from tests.support.conversing import PATIENCE_SECONDS, assistant

TIMES = 200.0
TRIES = 5


async def test_a_server_that_fails_each_time_is_asked_ever_more_seldom(tiny_pair: Path, tmp_path: Path) -> None:
    drafter = Drafter.load(tiny_pair / "drafter")
    page = answers(http(b"<html>", status="503 Service Unavailable", content_type="text/html"))
    peer, clock, settings = HostilePeer(card_of(drafter), page), FastClock(), Settings(mode="edge", max_tokens=8)
    begun: list[float] = []
    async with (
        peer.serving() as url,
        assistant(drafter, tmp_path / "outrider.db", url, settings=settings, clock=clock) as opened,
    ):
        await opened.settled()
        clock.hurry(TIMES)
        conversation = opened.store.conversations.create("kept").id
        queued = opened.outbox.enqueue(conversation, "list files")
        async with asyncio.timeout(PATIENCE_SECONDS):
            async for due in opened.due():
                begun.append(clock.now())
                events = [event async for event in opened.send(due)]
                assert due == queued and events
                assert opened.outbox.queued() == [queued] and opened.store.branches.thread(conversation) == []
                if len(begun) == TRIES:
                    break
    pauses = [after - before for before, after in zip(begun, begun[1:])]
    # Each takes its own tries, some 15 s; then the wait is 1, 2, 4 and 8 s at least, and the server's own pauses.
    assert sum(pauses) > 15.0
    count, again = opened.outbox._failures[queued.id]
    assert count == TRIES and again - clock.now() < 16.1
