"""The drafter writes alone only in place of its own model, and only if it is good enough or the person says so."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from app.config import Settings
from app.events import RoundEnded
from app.remotes.last_seen import LastSeen
from app.remotes.source import AddressSource
from app.reply.assistant import Assistant
from app.reply.routing import Options
from drafter.runtime import Drafter
from drafter.shelf import Drafters
from models.config import GRAPH, TOKENIZER
from models.guide.names import MARKS
from remote.protocol import Card, encode
from storage import Store
from tests.app.reply.conftest import Connect
from tests.remote.hostile import HostilePeer, answers
from tests.remote.test_hostile_verifier import card_of
from tests.remote.toy_verifier import CARD, http, raw_peer
from tests.support.checked_answers import answered
from tests.support.clock import FastClock
from tests.support.commands import Outrider
from tests.support.conversing import Heard, ask, ask_once, hear, until_connected, until_mode
from tests.support.fault_proxy import FaultProxy
from tests.support.faults import refused
from tests.support.figures import GOOD, NO_DRAFTS, NOT_ALONE, on_shelf
from tests.support.serving import VerifierProcess

QUESTION = "what is the capital of France"
NOBODY = "http://127.0.0.1:9"
UNFIT = "is not good enough to write alone"


def another(drafter: Drafter) -> Drafter:
    """One of another model, as the settings name it."""
    config = msgspec.structs.replace(drafter.config, memory=bytes(16).hex(), target="another")
    return Drafter(config, drafter.text, drafter._step)


@dataclass
class Device:
    """A device with a shelf of fetched drafters, which remembers the servers that it has seen."""

    drafters: Drafters
    store: Store
    seen: LastSeen

    @asynccontextmanager
    async def on(self, url: str | None, clock: FastClock | None = None, **chosen: Any) -> AsyncIterator[Assistant]:
        settings = Settings(max_tokens=chosen.pop("max_tokens", 40)).replaced(chosen, "the test")
        clock = clock or FastClock()
        source = None if url is None else AddressSource(url, clock=clock)
        options = Options(self.drafters, source, settings, modes=("edge",), seen=self.seen, clock=clock)
        async with Assistant(self.store, options) as opened:
            yield opened


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    return tmp_path / "shelf"


@pytest.fixture
def device(drafter: Drafter, store: Store, shelf: Path, tmp_path: Path) -> Device:
    """Its own drafter is one of another model."""
    return Device(Drafters(another(drafter), shelf), store, LastSeen(tmp_path / "seen"))


@pytest.mark.parametrize(
    ("place", "figures", "says"),
    [("settings", NOT_ALONE[0], UNFIT), ("settings", None, "was never measured"), ("shelf", NOT_ALONE[0], UNFIT)],
)
async def test_cut_in_mid_answer_nothing_is_appended(
    device: Device, tiny_pair: Path, verifier: VerifierProcess, shelf: Path, place: str,
    figures: dict[str, float] | None, says: str,
) -> None:  # fmt: skip
    folder, clock = on_shelf(tiny_pair / "drafter", shelf, figures), FastClock()
    if place == "settings":
        device.drafters = Drafters(Drafter.load(folder))
    async with (
        FaultProxy([verifier.port]) as proxy,
        device.on(proxy.url, clock, max_tokens=400, offline="queue") as opened,
    ):
        await until_connected(opened)

        async def cut(heard: Heard) -> None:
            if isinstance(heard.last, RoundEnded) and proxy.line is None:
                proxy.line = refused
                await proxy.refuse()
                clock.hurry(20.0)

        heard = await ask(opened, QUESTION, watch=cut)
        answer = device.store.branches.thread(heard.started.conversation)[-1]
        assert heard.failed is not None and heard.failed.queued and "offline" not in heard.modes
        assert heard.text and heard.text == answer.text and all(answer.provenance)
        assert says in heard.failed.message
        assert opened.status().mode == "offline" and not opened.status().alone


@pytest.fixture(scope="module")
def serving(other_pair: Path) -> Iterator[VerifierProcess]:
    """A server of another model."""
    with VerifierProcess(other_pair) as process:
        yield process


@pytest.mark.parametrize("figures", [NO_DRAFTS, None])
async def test_one_that_is_of_no_use_does_not_draft(
    device: Device, other_pair: Path, serving: VerifierProcess, shelf: Path, figures: dict[str, float] | None
) -> None:
    """The server answers in plain text, as if that drafter were not here."""
    on_shelf(other_pair / "drafter", shelf, figures)
    async with device.on(serving.url) as opened:
        await until_connected(opened)
        heard = await ask(opened, QUESTION)
        assert not opened.backend.routing.fits and opened.status().checks is False
    assert heard.done.stats.drafted_nodes == 0 and heard.text
    memory = device.seen.memory(serving.url)
    assert memory is not None and device.drafters.config(memory) is not None and not device.drafters.has(memory)


async def test_a_measured_one_drafts(device: Device, other_pair: Path, serving: VerifierProcess, shelf: Path) -> None:
    folder = on_shelf(other_pair / "drafter", shelf, None)
    answered(device.store, Drafter.load(folder), well=True)
    async with device.on(serving.url) as opened:
        await until_mode(opened, "edge")
        assert await opened.news() == [] and not device.drafters.unmeasured()
        assert (await ask(opened, QUESTION)).done.stats.drafted_nodes > 0


@pytest.mark.parametrize("figures", [GOOD, NOT_ALONE[1], None])
async def test_a_question_without_a_line_waits_unless_the_models_own_drafter_is_good(
    device: Device, tiny_pair: Path, drafter: Drafter, shelf: Path, figures: dict[str, float] | None
) -> None:
    on_shelf(tiny_pair / "drafter", shelf, figures)
    device.seen.note(NOBODY, drafter.memory_digest)
    async with device.on(NOBODY, offline="queue") as opened:
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


async def test_only_the_setting_lets_it_write(device: Device, tiny_pair: Path, drafter: Drafter, shelf: Path) -> None:
    """Only the drafter of the settings may then, and what it writes in another model's place is named."""
    in_place = await ask_once(device.on(NOBODY, max_tokens=8, offline="drafter"), QUESTION)
    assert in_place.done.drafted_by == "small model for another"
    assert [mode for mode in in_place.modes if mode != "warming"] == ["offline"] and not any(in_place.done.provenance)
    folder = on_shelf(tiny_pair / "drafter", shelf, NOT_ALONE[0])
    device.seen.note(NOBODY, drafter.memory_digest)
    fetched = await ask_once(device.on(NOBODY, offline="drafter"), QUESTION)
    assert fetched.ended is None, "a fetched one writes alone only if it is good enough"
    device.drafters = Drafters(Drafter.load(folder))
    refused = await ask_once(device.on(None, max_tokens=8), QUESTION)
    written = await ask_once(device.on(None, max_tokens=8, offline="drafter"), QUESTION)
    assert refused.failed is not None and UNFIT in refused.failed.message
    assert written.done.drafted_by == "small model for tiny"


@pytest.fixture
def outrider(outrider: Outrider, monkeypatch: pytest.MonkeyPatch) -> Outrider:
    monkeypatch.setenv("OUTRIDER_MAX_TOKENS", "8")
    return outrider


def test_offline_only_the_drafter_of_a_remotes_model_answers(
    outrider: Outrider, tmp_path: Path, drafter: Drafter
) -> None:
    alone = outrider("ask", "--mode", "offline", "--json", QUESTION)
    outrider("remote", "add", "smol", NOBODY)
    ask = ("ask", "--mode", "offline", "--json", "--remote", "smol", QUESTION)
    asked = outrider(*ask)
    assert asked.code == 3 and asked.out == "", asked
    assert "no other model answers in its place" in asked.err and "outrider ask --queue" in asked.err
    said = alone.json
    assert alone.code == 0 and said["model"] is None and said["drafted_by"] == "small model for tiny"
    assert "the small model for tiny alone wrote this answer" in alone.err
    LastSeen(tmp_path / "home/data/servers.json").note(NOBODY, drafter.memory_digest)
    asked = outrider(*ask)
    assert asked.code == 0 and asked.json["drafted_by"] == "small model for tiny"


def test_offline_by_choice_the_bundled_model_answers(
    outrider: Outrider, tiny_pair: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTRIDER_TARGET", str(tiny_pair / "target"))
    monkeypatch.setenv("OUTRIDER_DRAFTER", str(tiny_pair / "drafter"))
    asked, checked = (outrider("ask", "--mode", mode, "--json", QUESTION).json for mode in ("offline", "edge"))
    assert asked["text"] == checked["text"] and asked["model"] == checked["model"] == "target"


# ---- one that is fetched from its server -----------------------------------------------------------------------------


def unmarked(text: str) -> str:
    """A text without the marks of names, which this pair says and nobody is shown."""
    return "".join(letter for letter in text if letter not in MARKS)


async def test_plain_text_until_fetched(
    device: Device, drafter: Drafter, serving: VerifierProcess, shelf: Path
) -> None:
    chosen: dict[str, Any] = {"max_tokens": 24, "temperature": 0.0}
    device.drafters, store = Drafters(drafter, shelf), device.store
    async with FaultProxy([serving.port]) as proxy, device.on(proxy.url, **chosen) as opened:
        await until_connected(opened)
        plain = await ask(opened, "hello there")
        assert plain.text and "hosted" in plain.modes and opened.status().checks is False
        offer = opened.offer
        assert offer is not None and "offers a small model for target: 1 MB" in offer.question

        seen_bytes: list[int] = []
        await opened.fetch_offered(lambda done, total: seen_bytes.append(done))
        await until_mode(opened, "edge")
        assert seen_bytes and opened.offer is None and opened.backend.routing.fits
        conversation = store.conversations.create("with its drafter").id
        drafted = await ask(opened, "hello there", conversation)
        assert drafted.text == unmarked(plain.text), "the same model answers"
        assert drafted.done.stats.tau > 1

        await proxy.refuse()
        alone = await ask(opened, "and then", conversation)
        assert "offline" in alone.modes and alone.text

    device.drafters = Drafters(drafter, shelf)
    async with device.on(None, **chosen) as opened:
        of_other = device.drafters.of_memory(store.memory.last_used(conversation))
        assert of_other is not None and of_other is not drafter
        again = await ask(opened, "and then", conversation)
        mine = await ask(opened, "and then")
        tokens = [store.messages.get(heard.message).tokens for heard in (again, mine)]
        assert unmarked(of_other.text.decode(tokens[0])) == again.text, "its own drafter went on with it"
        assert drafter.text.decode(tokens[1]) == mine.text, "and the first one began a new one"


def test_a_like_one_drafts_and_a_damaged_one_counts_as_none(drafter: Drafter, other_pair: Path, tmp_path: Path) -> None:
    found, vocabulary = Drafters(drafter), drafter.config.vocabulary
    for memory in (bytes(16), None):
        assert found.fitting(drafter.text.digest, vocabulary, memory) is drafter
    assert found.fitting(bytes(16), vocabulary, drafter.memory_digest) is None
    folder = shutil.copytree(other_pair / "drafter", tmp_path / ("cd" * 32))
    other, found = Drafter.load(folder), Drafters(drafter, tmp_path)
    assert found.has(other.memory_digest) and not found.has(None) and not found.has(bytes(16))
    server = (other.text.digest, other.config.vocabulary, other.memory_digest)
    fits = found.fitting(*server)
    assert fits is not None and fits.memory_digest == other.memory_digest
    (folder / GRAPH).write_bytes(b"junk")
    (tmp_path / ("ef" * 32)).mkdir()
    assert Drafters(drafter, tmp_path).of_memory(other.memory_digest) is None
    assert Drafters(drafter, tmp_path).fitting(*server) is None
    assert (folder / TOKENIZER).is_file(), "it is left for the person"


# ---- in place of which model -----------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "servers.json"


def chosen(offline: str | None, **more: object) -> Settings:
    return Settings(max_tokens=8).replaced({"offline": offline, **more}, "the test")


def fails(heard: Heard) -> str:
    """The sentence of an answer that nobody gave."""
    assert heard.ended is None and heard.failed is not None and heard.text == "", heard.events
    assert "offline" not in heard.modes
    return heard.failed.message


async def answered_at_last(opened: Assistant) -> Heard:
    """What waits, sent until it is answered."""
    async for due in opened.due():
        if (heard := await hear(opened.send(due))).ended is not None:
            return heard
    raise AssertionError("it was not answered")


async def test_in_place_of_an_unknown_server_nobody_answers(connect: Connect) -> None:
    async with connect(NOBODY, settings=chosen(None)) as opened:
        conversation = opened.store.conversations.create("test").id
        heard = await ask(opened, QUESTION, conversation)
        said = fails(heard)
        assert heard.failed is not None and heard.failed.code == "unavailable" and not heard.failed.queued
        assert "127.0.0.1:9" in said and "No small model on this device was made for that server's model" in said
        assert opened.status().mode == "offline" and not opened.status().alone
        thread = opened.store.branches.thread(conversation)
        assert [(one.text, one.status) for one in thread] == [(QUESTION, "done"), ("", "failed")]
        assert opened.outbox.queued() == []


async def test_a_server_of_another_model_is_remembered_as_that(drafter: Drafter, file: Path, connect: Connect) -> None:
    """Another model has the same tokenizer and vocabulary, and memory that this drafter cannot read."""
    card = other_card(drafter)
    async with raw_peer(lambda number: http(encode(card)) if number < 1 else b"") as port:
        url = f"http://127.0.0.1:{port}"
        LastSeen(file).note(url, drafter.memory_digest)
        async with connect(url, settings=chosen(None), seen=LastSeen(file)) as opened:
            await opened.settled()
        assert LastSeen(file).memory(url) is None
        async with connect(url, settings=chosen(None), seen=LastSeen(file)) as opened:
            fails(await ask(opened, QUESTION))


def other_card(drafter: Drafter) -> Card:
    vocabulary, tokenizer = drafter.config.vocabulary, drafter.text.digest
    return replace(CARD, target="another", vocabulary=vocabulary, tokenizer=tokenizer, memory=None)


async def test_the_rest_of_an_answer_that_was_cut_is_asked_for(drafter: Drafter, connect: Connect) -> None:
    """A verifier of another model goes away after three tokens, and comes back."""
    away = answers(http(b"<html>", status="503 Service Unavailable", content_type="text/html"))
    peer, clock = HostilePeer(other_card(drafter), away, good=3), FastClock()
    async with peer.serving() as url, connect(url, settings=chosen("queue"), clock=clock) as opened:
        await opened.settled()
        clock.hurry(20.0)
        conversation = opened.store.conversations.create("test").id
        heard = await ask(opened, QUESTION, conversation)
        said = drafter.text.decode([5, 5, 5])
        assert heard.text == said and heard.ended is None and "offline" not in heard.modes
        assert heard.failed is not None and heard.failed.queued and "The rest follows" in heard.failed.message
        answer = opened.store.branches.thread(conversation)[-1]
        assert (answer.text, answer.status, answer.tokens) == (said, "failed", (5, 5, 5))
        assert [queued.message_id for queued in opened.outbox.queued()] == [answer.id]
        peer.good = 1 << 30
        await answered_at_last(opened)
        whole = opened.store.branches.thread(conversation)[-1]
        assert (whole.tokens, whole.status) == ((5,) * 8, "done") and all(whole.provenance)
        assert opened.outbox.queued() == []


async def test_a_server_that_fails_each_time_is_asked_ever_more_seldom(drafter: Drafter, connect: Connect) -> None:
    page = answers(http(b"<html>", status="503 Service Unavailable", content_type="text/html"))
    peer, clock, begun = HostilePeer(card_of(drafter), page), FastClock(), list[float]()
    async with peer.serving() as url, connect(url, settings=Settings(mode="edge", max_tokens=8), clock=clock) as opened:
        await opened.settled()
        clock.hurry(200.0)
        conversation = opened.store.conversations.create("kept").id
        queued = opened.outbox.enqueue(conversation, QUESTION)
        async for due in opened.due():
            begun.append(clock.now())
            assert due == queued and (await hear(opened.send(due))).events
            assert opened.outbox.queued() == [queued] and opened.store.branches.thread(conversation) == []
            if len(begun) == 5:
                break
    # Each takes its own tries, some 15 s; then the wait is 1, 2, 4 and 8 s at least, and the server's own pauses.
    assert sum(after - before for before, after in zip(begun, begun[1:])) > 15.0
    count, again = opened.outbox._failures[queued.id]
    assert count == 5 and again - clock.now() < 16.1


@pytest.mark.parametrize("offline", ["queue", "drafter"])
async def test_a_wrong_token_is_an_error_and_nobody_answers(offline: str, connect: Connect) -> None:
    body = json.dumps({"error": {"message": "Invalid API key", "code": "invalid_api_key"}}).encode()
    refusing = raw_peer(lambda _: http(body, status="401 Unauthorized", content_type="application/json"))
    async with refusing as port, connect(f"http://127.0.0.1:{port}", settings=chosen(offline)) as opened:
        heard = await ask(opened, QUESTION)
        fails(heard)
        assert heard.failed is not None and not heard.failed.queued
        assert opened.outbox.queued() == []
