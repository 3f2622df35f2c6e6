"""Whatever a verifier does, an answer ends in bounded time, with a typed event, and what was shown is stored.

The peer always greets rightly, so only its answers can show what it is. Deadlines go by a clock that runs 40 times as
fast. The property needs no exact times: only that there is an end.
"""

from __future__ import annotations

import asyncio
import resource
from pathlib import Path

import msgspec
import pytest

from app.config import Settings
from app.events import ModeChanged, RoundEnded
from app.remotes.source import AddressSource
from app.reply.assistant import Assistant
from app.reply.routing import Options
from drafter.runtime import Drafter
from drafter.shelf import Drafters
from remote.protocol import Card, MemoryFormat
from storage import Store
from tests.remote.hostile import HostilePeer, sends, silent, ways
from tests.remote.toy_verifier import CARD
from tests.support.clock import FastClock
from tests.support.conversing import Heard, ask

pytestmark = pytest.mark.faults

TIMES = 40.0
PATIENCE = 60.0
"""Real seconds for one answer on a busy machine; by the clock of the test that is 40 minutes or more."""
MOST_BYTES = 256 << 20
"""Bytes by which the process may grow. A peer that is believed takes gigabytes."""
ENDED = ("unavailable", "incompatible")
NAMES = sorted(ways(1, bytes(16)))
ONE_OF_EACH = (
    "silence", "nothing", "a page", "busy for ever", "a wrong token", "409 of lies", "half a frame, held",
    "a frame of no kind", "a wrong digest", "a day, then silence", "memory for ever", "distributions for ever",
    "text byte by byte",
)  # fmt: skip
"""What differs by how it ends. In `auto`, where the drafter goes on alone, the rest is one of these."""


def card_of(drafter: Drafter) -> Card:
    memory = MemoryFormat(digest=drafter.memory_digest, layers=drafter.memory_layers)
    known = {"vocabulary": drafter.config.vocabulary, "tokenizer": drafter.text.digest, "memory": memory}
    return msgspec.structs.replace(CARD, target="hostile", drafts=True, **known)


async def heard_from(peer: HostilePeer, drafter: Drafter, database: Path, mode: str, times: float = TIMES) -> Heard:
    """Take one answer, check that it ends, and that it is stored as it was shown."""
    settings = Settings(max_tokens=24).replaced({"mode": mode}, "the test")
    store, clock = Store.open(database), FastClock()
    try:
        async with peer.serving() as url:
            source = AddressSource(url, clock=clock)
            # What the target might have said is asked for, because the drafter can learn.
            learnt = database.parent / "learnt"
            options = Options(Drafters(drafter), source, settings, clock=clock, learnt=learnt)
            async with Assistant(store, options) as opened:
                conversation = store.conversations.create("test").id
                await opened.settled()
                clock.hurry(times)
                async with asyncio.timeout(PATIENCE):
                    heard = await ask(opened, "list files", conversation)
            message = store.messages.get(heard.message)
    finally:
        store.close()
    assert heard.last in (heard.ended, heard.failed) and message.status in ("done", "failed")
    assert message.text == heard.reply.solid + ("" if all(message.provenance) else heard.reply.ghost)
    # Where a busy machine gave up before the peer was asked, the clock runs more slowly the next time.
    return heard if peer.asked or times < 1 else await heard_from(peer, drafter, database, mode, times / 10)


@pytest.mark.parametrize(
    ("name", "mode"),
    [*((name, mode) for name in NAMES for mode in ("edge", "hosted")), *((name, "auto") for name in ONE_OF_EACH)],
)
async def test_an_answer_ends_whatever_the_verifier_does(
    drafter: Drafter, tmp_path: Path, name: str, mode: str
) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    peer = HostilePeer(card_of(drafter), ways(drafter.config.vocabulary, drafter.memory_digest)[name])
    heard = await heard_from(peer, drafter, tmp_path / "outrider.db", mode, 2 * TIMES)
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    assert grown < MOST_BYTES
    assert 0 < peer.asked < 60, "each try is work, and with some servers money"
    if heard.failed is not None:
        assert heard.failed.code in ENDED and heard.failed.message.endswith(".")
    elif mode != "auto":
        assert all(heard.done.provenance), "nobody but the target wrote it"


async def test_figures_of_an_answer_have_no_round_trip_while_nobody_is_there(drafter: Drafter, tmp_path: Path) -> None:
    peer = HostilePeer(card_of(drafter), silent, good=2)
    heard = await heard_from(peer, drafter, tmp_path / "outrider.db", "auto")
    trips: dict[str, set[bool]] = {}
    mode = ""
    for event in heard.events:
        mode = event.mode if isinstance(event, ModeChanged) else mode
        if isinstance(event, RoundEnded):
            trips.setdefault(mode, set()).add(event.stats.rtt_ms is not None)
    online = [seen for mode, seen in trips.items() if mode != "offline"]  # By edge or hosted: time decides which.
    assert online and all(seen == {True} for seen in online) and False in trips["offline"]


async def test_a_token_outside_the_vocabulary_costs_nothing_that_was_there(drafter: Drafter, tmp_path: Path) -> None:
    beyond = drafter.config.vocabulary
    for mode in ("edge", "hosted", "auto"):
        peer = HostilePeer(card_of(drafter), sends(lambda asked: asked.frame([beyond])), good=1)
        # Each reply comes at once, so there is nothing to wait for.
        heard = await heard_from(peer, drafter, tmp_path / f"{mode}.db", mode, times=2)
        if mode == "auto":
            assert heard.done.token_ids[0] == 5 and not heard.done.provenance[-1]
        else:
            assert heard.failed is not None and heard.failed.code == "incompatible", heard.failed
            assert f"token {beyond} of a vocabulary of {beyond}" in heard.failed.message
            assert heard.reply.solid == drafter.text.decode([5])
