"""Whatever the line does in the middle of a reply: it ends, no word is lost or doubled, and the next one works."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import pytest

from app.assistant import Assistant
from app.config import ChosenMode, Settings
from app.events import Drafted, ModeChanged
from app.transcript import conversation_tokens
from benchmarks.faults import FaultProxy
from benchmarks.nothing_lost import target_alone, violations
from drafter.runtime import Drafter
from remote import VerifierClient
from remote.protocol import Sampling
from tests.app.conversing import Heard, assistant, until_mode
from tests.faults.table import CASES, Case
from tests.serving import VerifierProcess

TOKENS = 48
BOUND_SECONDS = 40.0
"""For one reply; on a machine that is not busy it takes 1 to 4."""
ALONE = 6
"""Tokens that the device writes alone before the line is healed."""


@pytest.fixture(scope="module")
def drafter(tiny_pair: Path) -> Drafter:
    return Drafter.load(tiny_pair / "drafter")


@pytest.fixture(scope="module")
def other(tiny_pair: Path) -> Iterator[VerifierProcess]:
    """A second verifier of the same pair."""
    with VerifierProcess(tiny_pair) as process:
        yield process


@dataclass
class Device:
    """A device behind a line that can fail."""

    opened: Assistant
    proxy: FaultProxy
    drafter: Drafter
    verifier: VerifierProcess
    conversation: str
    references: dict[tuple[int, ...], list[int]]
    """The target's own answers, by their prompts."""

    async def ask(self, question: str, *, heal: bool = True) -> Heard:
        """Hear an answer out; with `heal` the line works again once some of it was written alone."""
        heard, alone = Heard(), 0
        async with (
            asyncio.timeout(BOUND_SECONDS),
            aclosing(self.opened.reply(self.conversation, question)) as events,
        ):
            async for event in events:
                heard.apply(event)
                if heal and isinstance(event, Drafted) and heard.reply.mode == "offline":
                    alone += 1
                    if alone == ALONE:  # The reply waits for its reader, so it is still running then.
                        await self.proxy.heal()
                        await until_mode(self.opened, "edge")
        await self.nothing_lost(heard)
        return heard

    async def nothing_lost(self, heard: Heard) -> None:
        thread = self.opened.store.thread(self.conversation)
        text = self.drafter.text
        prompt = tuple(conversation_tokens(text, thread[:-1]))
        if prompt not in self.references:
            async with VerifierClient(self.verifier.url) as client:  # Around the line.
                own = await target_alone(client, prompt, Sampling(), TOKENS, text.stop_tokens)
            self.references[prompt] = own
        assert violations(heard.events, thread[-1], self.references[prompt], text) == []


@pytest.fixture(scope="module")
def references() -> dict[tuple[int, ...], list[int]]:
    return {}


@pytest.fixture
def mode() -> ChosenMode:
    return "auto"


@pytest.fixture
async def device(
    drafter: Drafter,
    verifier: VerifierProcess,
    other: VerifierProcess,
    references: dict[tuple[int, ...], list[int]],
    mode: ChosenMode,
    tmp_path: Path,
) -> AsyncIterator[Device]:
    settings = Settings(mode=mode, max_tokens=TOKENS)
    async with (
        FaultProxy([verifier.port, other.port]) as proxy,
        assistant(drafter, tmp_path / "outrider.db", proxy.url, settings=settings) as opened,
    ):
        await until_mode(opened, "edge")
        conversation = opened.store.create_conversation("faults").id
        yield Device(opened, proxy, drafter, verifier, conversation, references)


def strike(proxy: FaultProxy, case: Case) -> None:
    """In the middle of the next reply."""
    for ask, fault in enumerate(case.faults, case.first):
        proxy.at(ask, fault)


@pytest.mark.parametrize("name", CASES)
async def test_a_fault_in_the_middle_of_a_reply(device: Device, name: str) -> None:
    case = CASES[name]
    strike(device.proxy, case)
    heard = await device.ask("list files")
    assert len(device.proxy.struck) == len(case.faults)
    assert heard.done is not None and len(heard.done.token_ids) == TOKENS and all(heard.done.provenance)
    modes = [mode for mode, _ in groupby(heard.modes)]
    if case.alone is None:
        assert modes == ["edge"]
    else:
        assert modes[:2] == ["edge", "offline"] and modes[-1] == "edge"
        assert case.alone in whys(heard)[0]
    after = await device.ask("and hidden ones")
    assert after.done is not None and all(after.done.provenance) and set(after.modes) == {"edge"}


@pytest.mark.parametrize("name", ["silence", "nobody listens", "a login page", "a busy verifier"])
async def test_a_fault_that_outlasts_the_reply(device: Device, name: str) -> None:
    strike(device.proxy, CASES[name])
    heard = await device.ask("list files", heal=False)
    assert heard.done is not None and len(heard.done.token_ids) == TOKENS
    assert [verified for verified, _ in groupby(heard.done.provenance)] == [True, False]
    assert heard.modes[-1] == "offline"
    await device.proxy.heal()
    await until_mode(device.opened, "edge")
    after = await device.ask("and hidden ones")
    assert after.done is not None and all(after.done.provenance)


@pytest.mark.parametrize("mode", ["edge"])
@pytest.mark.parametrize("name", ["silence", "nobody listens", "a login page", "a busy verifier"])
async def test_where_nothing_else_may_answer_it_waits_for_the_line(device: Device, name: str) -> None:
    strike(device.proxy, CASES[name])

    async def heal() -> None:
        await until_mode(device.opened, "offline")
        await device.proxy.heal()

    async with asyncio.TaskGroup() as both:
        both.create_task(heal())
        answer = both.create_task(device.ask("list files"))
    heard = answer.result()
    assert heard.done is not None and len(heard.done.token_ids) == TOKENS and all(heard.done.provenance)
    assert "offline" not in heard.modes


@pytest.mark.parametrize("mode", ["edge"])
@pytest.mark.parametrize("name", ["nobody listens", "a login page", "a token that is no longer good"])
async def test_where_nothing_else_may_answer_it_ends_in_a_sentence(
    device: Device, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.reply.RETURN_SECONDS", 1.0)
    case = CASES[name]
    assert case.alone is not None
    strike(device.proxy, case)
    heard = await device.ask("list files")
    assert heard.failed is not None and heard.failed.code == "unavailable" and case.alone in heard.failed.message
    kept = device.opened.store.message(heard.message)
    assert kept.status == "failed" and 0 < len(kept.tokens) < TOKENS and all(kept.provenance)
    await device.proxy.heal()
    await until_mode(device.opened, "edge")
    after = await device.ask("and hidden ones")
    assert after.done is not None and all(after.done.provenance)


def whys(heard: Heard) -> list[str]:
    return [event.why for event in heard.events if isinstance(event, ModeChanged) and event.mode == "offline"]
