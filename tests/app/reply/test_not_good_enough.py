"""A drafter that is not good enough does not draft, and never writes alone; nor does any in another model's place."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.config import Settings
from app.events import RoundEnded
from app.remotes.last_seen import LastSeen
from app.remotes.source import AddressSource
from app.reply.assistant import Assistant
from app.reply.routing import Options
from drafter.runtime import Drafter
from drafter.shelf import Drafters
from storage import Store
from tests.support.checked_answers import answered
from tests.support.clock import FastClock
from tests.support.commands import Outrider
from tests.support.conversing import Heard, ask, ask_once, assistant, hear, until_connected, until_mode
from tests.support.figures import GOOD, NO_DRAFTS, NOT_ALONE, on_shelf, with_figures
from tests.support.serving import VerifierProcess

QUESTION = "what is the capital of France"
NOBODY = "http://127.0.0.1:9"
UNFIT = "is not good enough to write alone"


def another(drafter: Drafter) -> Drafter:
    """One of another model, as the settings name it."""
    config = msgspec.structs.replace(drafter.config, memory=bytes(16).hex(), target="another")
    return Drafter(config, drafter.text, drafter._step)


@asynccontextmanager
async def on(
    store: Store, drafters: Drafters, url: str, seen: Path, clock: FastClock | None = None, **chosen: Any
) -> AsyncIterator[Assistant]:
    settings = Settings(max_tokens=chosen.pop("max_tokens", 40)).replaced(chosen, "the test")
    clock = clock or FastClock()
    source = AddressSource(url, clock=clock)
    options = Options(drafters, source, settings, modes=("edge",), seen=LastSeen(seen), clock=clock)
    async with Assistant(store, options) as opened:
        yield opened


@pytest.mark.parametrize("figures", [NOT_ALONE[0], None])
@pytest.mark.parametrize("place", ["settings", "shelf"])
async def test_killed_in_mid_answer_nothing_is_appended(
    tiny_pair: Path, drafter: Drafter, tmp_path: Path, figures: dict[str, float] | None, place: str
) -> None:
    if place == "settings":
        drafters = Drafters(Drafter.load(with_figures(tiny_pair / "drafter", tmp_path / "own", figures)))
    else:
        on_shelf(tiny_pair / "drafter", tmp_path / "shelf", figures)
        drafters = Drafters(another(drafter), tmp_path / "shelf")
    clock = FastClock()
    with VerifierProcess(tiny_pair) as serving, Store.open(tmp_path / "outrider.db") as store:
        async with on(
            store, drafters, serving.url, tmp_path / "seen", clock, max_tokens=400, offline="queue"
        ) as opened:
            await until_connected(opened)
            conversation = store.conversations.create("test").id

            def kill(heard: Heard) -> None:
                if isinstance(heard.last, RoundEnded) and serving._process is not None:
                    serving.kill()
                    clock.hurry(20.0)

            heard = await hear(opened.reply(conversation, QUESTION), kill)
            answer = store.branches.thread(conversation)[-1]
            status = opened.status()
    assert heard.failed is not None and heard.failed.queued and "offline" not in heard.modes
    assert heard.text and heard.text == answer.text and all(answer.provenance)
    if figures is not None:
        assert UNFIT in heard.failed.message
    elif place == "settings":
        assert "was never measured" in heard.failed.message and "outrider drafter eval" in heard.failed.message
    assert status.mode == "offline" and not status.alone


@pytest.mark.parametrize("figures", [NO_DRAFTS, None])
async def test_one_that_is_of_no_use_does_not_draft(
    other_pair: Path, drafter: Drafter, tmp_path: Path, figures: dict[str, float] | None
) -> None:
    """The server answers in plain text, as if that drafter were not here."""
    on_shelf(other_pair / "drafter", tmp_path / "shelf", figures)
    drafters = Drafters(drafter, tmp_path / "shelf")
    with VerifierProcess(other_pair) as serving, Store.open(tmp_path / "outrider.db") as store:
        async with on(store, drafters, serving.url, tmp_path / "seen") as opened:
            await until_connected(opened)
            heard = await ask(opened, QUESTION)
            assert not opened.backend.routing.fits and opened.status().checks is False
    assert heard.done.stats.drafted_nodes == 0 and heard.text
    memory = LastSeen(tmp_path / "seen").memory(serving.url)
    assert memory is not None and drafters.config(memory) is not None and not drafters.has(memory)


async def test_one_that_was_measured_here_drafts_from_then_on(
    other_pair: Path, drafter: Drafter, tmp_path: Path
) -> None:
    folder = on_shelf(other_pair / "drafter", tmp_path / "shelf", None)
    with VerifierProcess(other_pair) as serving, Store.open(tmp_path / "outrider.db") as store:
        answered(store, Drafter.load(folder), well=True)
        async with on(store, Drafters(drafter, tmp_path / "shelf"), serving.url, tmp_path / "seen") as opened:
            await until_mode(opened, "edge")
            assert await opened.news() == [] and not Drafters(drafter, tmp_path / "shelf").unmeasured()
            heard = await ask(opened, QUESTION)
            assert heard.done.stats.drafted_nodes > 0


@pytest.mark.parametrize("figures", [GOOD, *NOT_ALONE, None])
async def test_a_question_without_a_line_waits_unless_the_models_own_drafter_is_good(
    tiny_pair: Path, drafter: Drafter, tmp_path: Path, figures: dict[str, float] | None
) -> None:
    on_shelf(tiny_pair / "drafter", tmp_path / "shelf", figures)
    drafters = Drafters(another(drafter), tmp_path / "shelf")
    LastSeen(tmp_path / "seen").note(NOBODY, drafter.memory_digest)
    with Store.open(tmp_path / "outrider.db") as store:
        async with on(store, drafters, NOBODY, tmp_path / "seen", offline="queue") as opened:
            heard = await ask(opened, QUESTION)
            assert opened.status().alone == (figures is GOOD)
            waiting = opened.outbox.queued()
    if figures is GOOD:
        assert heard.done.drafted_by.startswith("small model for tiny")
        assert heard.done.model == "" and not waiting
        return
    assert heard.failed is not None and [one.text for one in waiting] == [QUESTION] and heard.text == ""
    said = "was never measured" if figures is None else UNFIT
    assert f"The small model for tiny {said}" in heard.failed.message


async def test_only_the_setting_lets_one_write_that_is_not_good_enough(
    tiny_pair: Path, drafter: Drafter, tmp_path: Path
) -> None:
    """Only the drafter of the settings may then, and what it writes in another model's place is named."""
    own = Drafter.load(with_figures(tiny_pair / "drafter", tmp_path / "own", NOT_ALONE[0]))
    refused = await ask_once(assistant(own, tmp_path / "a.db", None, settings=Settings(max_tokens=8)), QUESTION)
    settings = Settings(max_tokens=8, offline="drafter")
    written = await ask_once(assistant(own, tmp_path / "a.db", None, settings=settings), QUESTION)
    in_place = await ask_once(assistant(another(drafter), tmp_path / "a.db", NOBODY, settings=settings), QUESTION)
    assert refused.failed is not None and UNFIT in refused.failed.message
    assert written.done.drafted_by == "small model for tiny"
    assert in_place.done.drafted_by == "small model for another"
    assert [mode for mode in in_place.modes if mode != "warming"] == ["offline"] and not any(in_place.done.provenance)
    on_shelf(tiny_pair / "drafter", tmp_path / "shelf", NOT_ALONE[0])
    LastSeen(tmp_path / "seen").note(NOBODY, drafter.memory_digest)
    with Store.open(tmp_path / "outrider.db") as store:
        drafters = Drafters(another(drafter), tmp_path / "shelf")
        async with on(store, drafters, NOBODY, tmp_path / "seen", offline="drafter") as opened:
            assert (await ask(opened, QUESTION)).ended is None, "a fetched one writes alone only if it is good enough"


@pytest.fixture
def outrider(outrider: Outrider, monkeypatch: pytest.MonkeyPatch) -> Outrider:
    monkeypatch.setenv("OUTRIDER_MAX_TOKENS", "8")
    return outrider


@pytest.mark.parametrize("remote", [NOBODY, "smol"])
def test_offline_by_choice_the_bundled_model_does_not_answer_for_a_remote(outrider: Outrider, remote: str) -> None:
    alone = outrider("ask", "--mode", "offline", "--json", QUESTION)
    outrider("remote", "add", "smol", NOBODY)
    asked = outrider("ask", "--mode", "offline", "--json", "--remote", remote, QUESTION)
    assert asked.code == 3 and asked.out == "", asked
    assert "no other model answers in its place" in asked.err and "outrider ask --queue" in asked.err
    said = alone.json
    assert alone.code == 0 and said["model"] is None and said["drafted_by"] == "small model for tiny"
    assert "the small model for tiny alone wrote this answer" in alone.err


def test_offline_by_choice_the_drafter_of_that_remotes_model_answers(
    outrider: Outrider, tmp_path: Path, drafter: Drafter
) -> None:
    LastSeen(tmp_path / "home/data/servers.json").note(NOBODY, drafter.memory_digest)
    asked = outrider("ask", "--mode", "offline", "--json", "--remote", NOBODY, QUESTION)
    assert asked.code == 0 and asked.json["drafted_by"] == "small model for tiny"


def test_who_wrote_is_named(outrider: Outrider, verifier: VerifierProcess) -> None:
    said = outrider("ask", "--json", "--remote", verifier.url, QUESTION).json
    assert said["model"] == "target" and said["drafted_by"] is None
