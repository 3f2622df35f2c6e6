"""The proxy that fails on demand: what each side of it sees."""

from __future__ import annotations

import asyncio
import re

import pytest

from models.tree import DraftTree
from remote import Broken, Incompatible, LinkDown, RemoteSession, RoundReply, VerifierClient
from remote.protocol import Sampling
from tests.support.fault_proxy import Fault, FaultProxy
from tests.support.faults import (
    after,
    corrupted,
    cut_after,
    doubled,
    elsewhere,
    forgotten,
    lasting,
    page,
    reordered,
    reset,
    silence,
    slower,
    truncated,
    unheard,
)
from tests.support.serving import VerifierProcess


async def counted(verifier: VerifierProcess) -> dict[str, int]:
    """The verifier's counters."""
    reader, writer = await asyncio.open_connection("127.0.0.1", verifier.port)
    writer.write(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
    try:
        text = (await reader.read()).decode()
    finally:
        writer.close()
    return {name: int(value) for name, value in re.findall(r"^outrider_(\w+)_total (\d+)$", text, re.MULTILINE)}


async def ask(session: RemoteSession, tokens: list[int], deadline: float = 5.0) -> RoundReply:
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
        assert {name: now[name] - before[name] for name in ("rounds", "replays", "conflicts")} == {
            "rounds": 0, "replays": 0, "conflicts": 0, **happens
        }  # fmt: skip
        assert proxy.struck == [1] and second.verdict.length == len(tokens) + 2


async def test_older_requests_come_again_and_change_nothing(verifier: VerifierProcess, prompts):
    async with FaultProxy([verifier.port]) as proxy, VerifierClient(proxy.url) as client:
        session, tokens = client.session(), list(prompts[0])
        for _ in range(3):
            tokens.append((await ask(session, tokens)).verdict.bonus)
        before = await counted(verifier)
        proxy.at(0, reordered)
        assert (await ask(session, tokens)).exchanges == 1
        now = await counted(verifier)
        # Before the new one, the older request is a repetition. After it, it is refused.
        assert (now["rounds"] - before["rounds"], now["replays"] - before["replays"]) == (1, 1)


async def test_what_the_device_sees(verifier: VerifierProcess, prompts):
    async with FaultProxy([verifier.port]) as proxy, VerifierClient(proxy.url) as client:
        tokens = list(prompts[0])
        proxy.at(0, corrupted)
        with pytest.raises(Incompatible, match="committed other tokens"):
            await ask(client.session(), tokens)
        proxy.at(0, silence)
        with pytest.raises(LinkDown, match=r"did not answer within 0\.2 s"):
            await ask(client.session(), tokens, deadline=0.2)
        proxy.at(0, page("418 Teapot", "text/plain", b"short and stout"))
        with pytest.raises(LinkDown, match=r"refused \(418\)"):
            await ask(client.session(), tokens)
        proxy.plan = dict.fromkeys((proxy.asked, proxy.asked + 1), after(40, page("200 OK", "text/html", b"")))
        with pytest.raises(Broken):
            await ask(client.session(), tokens)
        proxy.at(0, lasting(slower(0.01)))
        for _ in range(3):
            await ask(client.session(), tokens)
        with pytest.raises(LinkDown):
            await ask(client.session(), tokens, deadline=0.08)
        await proxy.heal()
        await ask(client.session(), tokens, deadline=5.0)


async def test_a_line_that_is_down_and_up_again(verifier: VerifierProcess, prompts):
    async with FaultProxy([verifier.port]) as proxy, VerifierClient(proxy.url) as client:
        session, tokens, port = client.session(), list(prompts[0]), proxy.port
        tokens.append((await ask(session, tokens)).verdict.bonus)
        proxy.hush()
        with pytest.raises(LinkDown, match="did not answer"):
            await ask(session, tokens, deadline=0.3)
        await ask(session, tokens)  # Over a new connection.
        await proxy.refuse()
        with pytest.raises(LinkDown, match="nothing listens"):
            await ask(session, tokens)
        await proxy.heal()
        assert proxy.port == port
        assert (await ask(session, tokens)).verdict.length == len(tokens) + 1


async def test_another_verifier_takes_over(verifier: VerifierProcess, prompts):
    async with FaultProxy([1, verifier.port]) as proxy, VerifierClient(proxy.url) as client:
        with pytest.raises(LinkDown):  # Nothing listens at port 1.
            await ask(client.session(), list(prompts[0]))
        proxy.at(0, elsewhere)
        assert (await ask(client.session(), list(prompts[0]))).exchanges == 1
        assert proxy.verifiers == [verifier.port, 1]
