"""What the tests of faults stand on: the proxy that fails on demand, and what counts as lost, doubled or wrong."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace

import pytest

from app.events import Done, Drafted, Event, Failed, Stats, Verified
from models.tree import DraftTree
from remote import RemoteSession, RoundReply, VerifierClient
from remote.protocol import Sampling
from storage import Message
from tests.support.fault_proxy import Fault, FaultProxy
from tests.support.faults import (
    cut_after,
    doubled,
    forgotten,
    reordered,
    reset,
    truncated,
    unheard,
)
from tests.support.nothing_lost import violations
from tests.support.patience import PATIENCE_SECONDS
from tests.support.serving import VerifierProcess

# ---- the proxy -------------------------------------------------------------------------------------------------------


async def counted(verifier: VerifierProcess) -> dict[str, int]:
    """The verifier's counters."""
    reader, writer = await asyncio.open_connection("127.0.0.1", verifier.port)
    writer.write(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
    try:
        text = (await reader.read()).decode()
    finally:
        writer.close()
    return {
        name: int(float(value)) for name, value in re.findall(r"^outrider_(\w+)_total ([\d.]+)$", text, re.MULTILINE)
    }


async def ask(session: RemoteSession, tokens: list[int], deadline: float = PATIENCE_SECONDS) -> RoundReply:
    reply = await session.round(tokens, DraftTree.empty(), Sampling(), memory_from=0, deadline=deadline)
    async for _ in reply.memory:
        pass
    return reply


@pytest.mark.parametrize(
    ("fault", "happens"),
    [
        (unheard, {"rounds": 1, "replays": 1}),
        (cut_after(40), {"rounds": 1, "replays": 1}),
        (truncated, {"rounds": 1}),
        (reset, {"rounds": 1, "replays": 1}),
        (doubled, {"rounds": 1, "replays": 1}),
        (forgotten, {"rounds": 1, "conflicts": 1}),
        (reordered, {"rounds": 1, "replays": 1}),
    ],
)
async def test_what_reaches_the_verifier(verifier: VerifierProcess, prompts, fault: Fault, happens: dict[str, int]):
    async with FaultProxy([verifier.port]) as proxy, VerifierClient(proxy.url) as client:
        session, tokens = client.session(), list(prompts[0])
        first = await ask(session, tokens)
        before = await counted(verifier)
        proxy.at(0, fault)
        second = await ask(session, [*tokens, first.verdict.bonus])
        now = await counted(verifier)
        changed = {name: now[name] - before[name] for name in ("rounds", "replays", "conflicts")}
        assert changed == {"rounds": 0, "replays": 0, "conflicts": 0, **happens}
        assert proxy.struck == [1] and second.verdict.length == len(tokens) + 2


# ---- nothing is lost -------------------------------------------------------------------------------------------------


@pytest.fixture
def tokens(drafter) -> list[int]:
    return drafter.text.encode("list all files")


@pytest.fixture
def stored(drafter, tokens) -> Message:
    """Two tokens are verified, and the others drafted."""
    provenance = (True,) * 2 + (False,) * (len(tokens) - 2)
    return Message("m", "c", None, "assistant", drafter.text.decode(tokens), "done", tuple(tokens), provenance, {}, "")


@pytest.fixture
def events(drafter, stored) -> list[Event]:
    solid = drafter.text.decode(stored.tokens[:2])
    done = Done(False, "length", stored.tokens, stored.provenance, Stats())
    return [Verified(solid, 2, 0), Drafted(stored.text.removeprefix(solid), len(stored.tokens) - 2), done]


def test_each_thing_that_may_be_wrong_is_found(events, stored, drafter, tokens):
    def found(events: list[Event] = events, stored: Message = stored, reference: list[int] | None = tokens) -> str:
        return "; ".join(violations(events, stored, reference, drafter.text))

    assert found() == found(reference=None) == found(reference=[*tokens[:2], 3, 4, 5]) == ""
    assert found([*events[:-1], Failed("No verifier.", "unavailable")], replace(stored, status="failed")) == ""
    assert "it ended 0 times" in found(events[:-1])
    assert "it ended 2 times" in found([*events, events[-1]])
    assert "are stored, or other ones" in found(stored=replace(stored, tokens=(*stored.tokens[:-1], 3)))
    assert "stored as stopped" in found(stored=replace(stored, status="stopped"))
    assert "follows one that is not" in found(stored=replace(stored, provenance=stored.provenance[::-1]))
    assert "4 tokens were shown as verified, and 2 are" in found([events[0], *events])
    assert "shown" in found([events[0], events[-1]])
    assert "not that of the stored tokens" in found(stored=replace(stored, text=stored.text + "!"))
    assert "verified token 1 of 2 is not the target's own" in found(reference=[tokens[0], tokens[1] + 1, *tokens[2:]])
    whole = replace(stored, provenance=(True,) * len(tokens))
    said = [Verified(stored.text, len(tokens), 0), replace(events[-1], provenance=whole.provenance)]
    assert found(said, whole) == ""
    short = f"it ended after {len(tokens)} of the target's {len(tokens) + 1} tokens"
    assert found(said, whole, [*tokens, 9]) == short
