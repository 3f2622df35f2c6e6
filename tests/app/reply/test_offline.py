"""The drafter writes alone only in place of the model that it was made for, unless the person says otherwise."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from app.config import Settings
from app.remotes.last_seen import LastSeen
from app.reply.assistant import Assistant
from drafter.runtime import Drafter
from remote.protocol import Card, encode
from tests.app.reply.conftest import Connect
from tests.remote.hostile import HostilePeer, answers
from tests.remote.test_hostile_verifier import card_of
from tests.remote.toy_verifier import CARD, http, raw_peer
from tests.support.clock import FastClock
from tests.support.conversing import Heard, ask, ask_once, hear
from tests.support.fault_proxy import FaultProxy
from tests.support.serving import VerifierProcess

QUESTION = "what is the capital of France"
NOBODY = "http://127.0.0.1:9"


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


async def answered(opened: Assistant) -> Heard:
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


async def test_the_question_waits_until_the_server_is_there(verifier: VerifierProcess, connect: Connect) -> None:
    async with FaultProxy([verifier.port]) as proxy:
        await proxy.refuse()
        async with connect(proxy.url, settings=chosen("queue")) as opened:
            conversation = opened.store.conversations.create("test").id
            heard = await ask(opened, QUESTION, conversation)
            assert "waits" in fails(heard) and heard.failed is not None and heard.failed.queued
            assert opened.store.branches.thread(conversation) == [], "the question is a prompt that waits, again"
            [queued] = opened.outbox.queued()
            assert (queued.kind, queued.text, queued.conversation_id) == ("ask", QUESTION, conversation)
            await proxy.heal()
            sent = await answered(opened)
            assert opened.outbox.queued() == []
            thread = opened.store.branches.thread(conversation)
            assert [(one.text, one.status) for one in thread] == [(QUESTION, "done"), (sent.text, "done")]
            assert all(thread[-1].provenance)


@pytest.mark.parametrize("known", ["drafter's", "another"])
async def test_what_was_at_an_address_is_remembered(drafter: Drafter, file: Path, known: str, connect: Connect) -> None:
    """The model that was there the last time decides, also in the next run of the program."""
    LastSeen(file).note(NOBODY, drafter.memory_digest if known == "drafter's" else bytes(16))
    heard = await ask_once(connect(NOBODY, settings=chosen(None), seen=LastSeen(file)), QUESTION)
    if known == "drafter's":
        assert heard.done and heard.modes[-1] == "offline"
    else:
        fails(heard)


async def test_a_verifier_is_remembered_when_it_is_met(
    verifier: VerifierProcess, drafter: Drafter, file: Path, served: Connect
) -> None:
    async with served(seen=LastSeen(file)) as opened:
        await opened.settled()
    assert LastSeen(file).memory(verifier.url) == drafter.memory_digest
    assert file.stat().st_mode & 0o077 == 0


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
        await answered(opened)
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
