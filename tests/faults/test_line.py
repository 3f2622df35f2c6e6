"""Whatever the line does in the middle of a reply: the reply ends, no word is lost or duplicated, and the next one
works."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import pytest

from app.config import ChosenMode, Settings
from app.events import ModeChanged
from app.remotes.mode_meter import Verifying
from drafter.runtime import Drafter
from remote import VerifierClient
from remote.link import STALL_SECONDS
from remote.verifier.http import ALIVE_SECONDS
from tests.faults.device import HURRY, TOKENS, Device, whys
from tests.faults.table import CASES, LATE, STREAM_CASES, Case
from tests.support.clock import FastClock
from tests.support.conversing import assistant, until_connected, until_mode
from tests.support.fault_proxy import FaultProxy
from tests.support.faults import STREAM_BYTES, after, hushed
from tests.support.serving import REPOSITORY, VerifierProcess

WAYS: dict[Verifying, dict[str, Case]] = {"edge": CASES, "hosted": STREAM_CASES}


FRAMES_SECONDS = 1.8
"""How long a device waits for a frame on a fast line where it cannot tell what it is for: rounds, and their memory."""


@pytest.fixture(scope="module")
def other(tiny_pair: Path) -> Iterator[VerifierProcess]:
    """A second verifier of the same pair."""
    with VerifierProcess(tiny_pair) as process:
        yield process


@dataclass
class Behind(Device):
    """A device behind a line that fails on demand."""

    proxy: FaultProxy


@pytest.fixture
def mode() -> ChosenMode:
    return "auto"


@pytest.fixture
def way() -> Verifying:
    """What `auto` does while the verifier answers."""
    return "edge"


@pytest.fixture
def name() -> str:
    return ""


@pytest.fixture
async def device(
    drafter: Drafter, verifier: VerifierProcess, other: VerifierProcess, mode: ChosenMode, way: Verifying, name: str,
    tmp_path: Path,
) -> AsyncIterator[Behind]:  # fmt: skip
    settings, clock = Settings(mode=mode, max_tokens=TOKENS), FastClock()
    silent = name in WAYS[way] and WAYS[way][name].silent
    around, database = VerifierClient(verifier.url), tmp_path / "outrider.db"
    async with (
        FaultProxy([verifier.port, other.port]) as proxy,
        around,
        assistant(
            drafter, database, proxy.url, settings=settings, modes=(way,), patient=not silent, clock=clock
        ) as opened,
    ):
        await until_connected(opened)
        clock.hurry(HURRY if silent else 1.0)
        conversation = opened.store.conversations.create("faults").id
        yield Behind(opened, clock, drafter.text, around, conversation, proxy)


def strike(proxy: FaultProxy, case: Case) -> None:
    for ask, fault in enumerate(case.faults, case.first):
        proxy.at(ask, fault)


MENDED_BY_A_PERSON = "a token that is no longer good"
"""Waiting does not help with this one, and nobody else answers."""


@pytest.mark.parametrize(
    ("way", "name"), [(way, name) for way, cases in WAYS.items() for name in cases if name != MENDED_BY_A_PERSON]
)
async def test_a_fault_in_the_middle_of_a_reply(device: Behind, way: Verifying, name: str) -> None:
    case = WAYS[way][name]
    strike(device.proxy, case)
    heard = await device.ask("list files", heal=device.proxy.heal)
    assert len(device.proxy.struck) == len(case.faults)
    assert heard.done is not None and len(heard.done.token_ids) == TOKENS and all(heard.done.provenance)
    modes = [mode for mode, _ in groupby(heard.modes)]
    if case.alone is None:
        assert modes == [way]
    else:
        assert modes[:2] == [way, "offline"] and modes[-1] != "offline"
        assert case.alone in whys(heard)[0]
    await device.works_again()


@pytest.mark.parametrize("name", ["silence", "nobody listens", "a login page", "a busy verifier"])
async def test_a_fault_that_outlasts_the_reply(device: Behind, name: str) -> None:
    strike(device.proxy, CASES[name])
    heard = await device.ask("list files")
    assert heard.done is not None and len(heard.done.token_ids) == TOKENS
    assert [verified for verified, _ in groupby(heard.done.provenance)] == [True, False]
    assert heard.modes[-1] == "offline"
    await device.proxy.heal()
    await device.works_again()


@pytest.mark.parametrize("mode", ["edge"])
@pytest.mark.parametrize("name", ["silence", "nobody listens", "a login page", "a busy verifier"])
async def test_where_nothing_else_may_answer_it_waits_for_the_line(device: Behind, name: str) -> None:
    strike(device.proxy, CASES[name])

    async def heal() -> None:
        await until_mode(device.opened, "offline")
        device.clock.hurry(1.0)
        await device.proxy.heal()

    async with asyncio.TaskGroup() as both:
        both.create_task(heal())
        answer = both.create_task(device.ask("list files"))
    heard = answer.result()
    assert heard.done is not None and len(heard.done.token_ids) == TOKENS and all(heard.done.provenance)
    assert "offline" not in heard.modes


@pytest.mark.parametrize(
    ("mode", "name"),
    [("edge", "nobody listens"), ("edge", "a login page"), ("edge", MENDED_BY_A_PERSON), ("auto", MENDED_BY_A_PERSON)],
)
async def test_where_nothing_else_may_answer_it_ends_in_a_sentence(
    device: Behind, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.reply.reply.RETURN_SECONDS", 0.3)
    case = CASES[name]
    assert case.alone is not None
    strike(device.proxy, case)
    heard = await device.ask("list files")
    assert heard.failed is not None and heard.failed.code == "unavailable" and case.alone in heard.failed.message
    kept = device.opened.store.messages.get(heard.message)
    assert kept.status == "failed" and 0 < len(kept.tokens) < TOKENS and all(kept.provenance)
    await device.proxy.heal()
    await device.works_again()


def test_every_fault_is_in_the_table_for_people() -> None:
    page = (REPOSITORY / "docs/faults.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| ([^|]+) \| ((?:edge|hosted)(?:, hosted)?) \|", page, re.MULTILINE))
    ways = {name: [way for way, cases in WAYS.items() if name in cases] for name in {*CASES, *STREAM_CASES}}
    assert rows == {name: ", ".join(ways[name]) for name in ways}


@pytest.mark.parametrize(("way", "name"), [("hosted", "half-open connections")])
async def test_a_silent_line_is_given_up_before_a_frame_is_overdue_however_slow_the_server(device: Behind) -> None:
    device.clock.hurry(1.0)
    await device.ask("by name")  # From here on, the line's deadlines follow its measured round trips.
    device.proxy.at(0, after(STREAM_BYTES, hushed))
    heard = await device.ask("list files")
    borne = re.search(r"did not answer within ([\d.]+) s", whys(heard)[0])
    assert borne is not None and STALL_SECONDS + ALIVE_SECONDS <= float(borne[1]) < FRAMES_SECONDS


# ---- the server is killed --------------------------------------------------------------------------------------------


async def test_what_was_written_alone_is_taken_over_or_stays_where_the_verifier_does_not_return(
    verifier: VerifierProcess, drafter: Drafter, tiny_pair: Path, tmp_path: Path
) -> None:
    settings = Settings(max_tokens=TOKENS)
    with VerifierProcess(tiny_pair) as mortal:

        async def kill() -> None:
            mortal.kill()

        async def start() -> None:
            mortal.start()

        async with (
            VerifierClient(verifier.url) as around,
            assistant(drafter, tmp_path / "outrider.db", mortal.url, settings=settings) as opened,
        ):
            await until_mode(opened, "edge")
            conversation = opened.store.conversations.create("killed").id
            device = Device(opened, FastClock(), drafter.text, around, conversation)
            heard = await device.ask("list files", strike=kill, heal=start)
            assert [mode for mode, _ in groupby(heard.modes)][-3:] == ["edge", "offline", "edge"]
            assert heard.done is not None and len(heard.done.token_ids) == TOKENS and all(heard.done.provenance)
            assert ModeChanged("edge", "checked by target") in heard.events
            assert heard.reply.ghost == "" and LATE not in whys(heard)[0], "the broken connection tells it"

            heard = await device.ask("by name", strike=kill)
            assert heard.modes[-2:] == ["edge", "offline"]
            assert heard.done is not None and len(heard.done.token_ids) == TOKENS
            assert [verified for verified, _ in groupby(heard.done.provenance)] == [True, False]
            mortal.start()
            await device.works_again()
