"""The drafter writes alone only in place of the model that it was made for, unless the person says otherwise."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from app.config import Settings
from app.remotes.last_seen import LastSeen
from drafter.runtime import Drafter
from remote.protocol import Card, encode
from tests.remote.hostile import HostilePeer, answers
from tests.remote.toy_verifier import http, raw_peer
from tests.support.chat_server import ChatServer, Script
from tests.support.clock import FastClock
from tests.support.commands import runner
from tests.support.conversing import Heard, ask, assistant
from tests.support.serving import VerifierProcess

QUESTION = "what is the capital of France"
NOBODY = "http://127.0.0.1:9"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "servers.json"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def chosen(offline: str | None, **more: object) -> Settings:
    return Settings(max_tokens=8).replaced({"offline": offline, **more}, "the test")


def fails(heard: Heard) -> str:
    """The sentence of an answer that nobody gave."""
    assert heard.done is None and heard.failed is not None and heard.text == "", heard.events
    assert "offline" not in heard.modes
    return heard.failed.message


async def test_in_place_of_an_unknown_server_nobody_answers(drafter: Drafter, database: Path) -> None:
    async with assistant(drafter, database, NOBODY, settings=chosen(None)) as opened:
        conversation = opened.store.conversations.create("test").id
        heard = await ask(opened, QUESTION, conversation)
        said = fails(heard)
        assert heard.failed is not None and heard.failed.code == "unavailable" and not heard.failed.queued
        assert "127.0.0.1:9" in said and "No small model on this device was made for that server's model" in said
        assert opened.status().mode == "offline" and not opened.status().alone
        thread = opened.store.branches.thread(conversation)
        assert [(one.text, one.status) for one in thread] == [(QUESTION, "done"), ("", "failed")]
        assert opened.outbox.queued() == []


async def test_the_question_waits_and_is_asked_when_the_server_is_there(
    tiny_pair: Path, drafter: Drafter, database: Path
) -> None:
    verifier = VerifierProcess(tiny_pair)
    verifier.port = free_port()
    async with assistant(drafter, database, verifier.url, settings=chosen("queue")) as opened:
        conversation = opened.store.conversations.create("test").id
        heard = await ask(opened, QUESTION, conversation)
        assert "waits" in fails(heard) and heard.failed is not None and heard.failed.queued
        assert opened.store.branches.thread(conversation) == [], "the question is a prompt that waits, again"
        [queued] = opened.outbox.queued()
        assert (queued.kind, queued.text, queued.conversation_id) == ("ask", QUESTION, conversation)
        with verifier:
            sent = Heard()
            async for due in opened.due():
                async for event in opened.send(due):
                    sent.apply(event)
                if sent.done is not None:
                    break
        assert opened.outbox.queued() == []
        thread = opened.store.branches.thread(conversation)
        assert [(one.text, one.status) for one in thread] == [(QUESTION, "done"), (sent.text, "done")]
        assert all(thread[-1].provenance)


async def test_the_drafter_answers_in_anybodys_place_where_the_person_says_so(drafter: Drafter, database: Path) -> None:
    async with assistant(drafter, database, NOBODY, settings=chosen("drafter")) as opened:
        heard = await ask(opened, QUESTION)
        assert opened.status().mode == "offline" and opened.status().alone
    assert heard.done is not None and not any(heard.done.provenance)
    assert [mode for mode in heard.modes if mode != "warming"] == ["offline"]


@pytest.mark.parametrize("known", ["drafter's", "another", "nothing"])
async def test_what_was_seen_at_an_address_is_remembered(
    drafter: Drafter, database: Path, file: Path, known: str
) -> None:
    """The model that was there the last time decides, also in the next run of the program."""
    if known != "nothing":
        digest = drafter.memory_digest if known == "drafter's" else bytes(16)
        LastSeen(file).note(NOBODY, digest)
    async with assistant(drafter, database, NOBODY, settings=chosen(None), seen=LastSeen(file)) as opened:
        heard = await ask(opened, QUESTION)
    if known == "drafter's":
        assert heard.done is not None and heard.modes[-1] == "offline"
    else:
        fails(heard)


async def test_a_verifier_is_remembered_when_it_is_met(
    verifier: VerifierProcess, drafter: Drafter, database: Path, file: Path
) -> None:
    async with assistant(drafter, database, verifier.url, seen=LastSeen(file)) as opened:
        await opened.settled()
    assert LastSeen(file).memory(verifier.url) == drafter.memory_digest
    assert file.stat().st_mode & 0o077 == 0


async def test_a_verifier_of_another_model_is_remembered_as_that(drafter: Drafter, database: Path, file: Path) -> None:
    """Another model has the same tokenizer and vocabulary, and memory that this drafter cannot read."""
    card = other_card(drafter)
    async with raw_peer(lambda number: http(encode(card)) if number < 1 else b"") as port:
        url = f"http://127.0.0.1:{port}"
        LastSeen(file).note(url, drafter.memory_digest)
        async with assistant(drafter, database, url, settings=chosen(None), seen=LastSeen(file)) as opened:
            await opened.settled()
        assert LastSeen(file).memory(url) is None
        async with assistant(drafter, database, url, settings=chosen(None), seen=LastSeen(file)) as opened:
            fails(await ask(opened, QUESTION))


def other_card(drafter: Drafter) -> Card:
    from remote.protocol import VERSION, Limits

    return Card(
        version=VERSION,
        target="another",
        vocabulary=drafter.config.vocabulary,
        tokenizer=drafter.text.digest,
        chat_template="",
        stop_tokens=(),
        limits=Limits(max_nodes=64, max_depth=16, max_tokens=4096, max_body_bytes=1 << 20),
        memory=None,
    )


async def test_a_chat_server_never_gets_the_drafters_words(drafter: Drafter, database: Path) -> None:
    """Cut in the middle: what there is stays, and the question, which may have been paid for, is not sent again."""
    server = ChatServer([Script(["The capital ", "of France"], cut=True)], leaves=True)
    settings, clock = chosen("queue", max_tokens=200), FastClock()
    async with (
        server.listening() as port,
        assistant(drafter, database, f"http://127.0.0.1:{port}", settings=settings, clock=clock) as opened,
    ):
        await opened.settled()
        clock.hurry(20.0)
        conversation = opened.store.conversations.create("test").id
        heard = await ask(opened, QUESTION, conversation)
        assert heard.text == "The capital of France" and heard.done is None and "offline" not in heard.modes
        assert heard.failed is not None and not heard.failed.queued and "is kept" in heard.failed.message
        answer = opened.store.branches.thread(conversation)[-1]
        assert (answer.text, answer.status) == (heard.text, "failed") and all(answer.provenance)
        assert opened.outbox.queued() == [] and len(server.asked) == 1


async def test_the_rest_of_an_answer_that_was_cut_is_asked_for(drafter: Drafter, database: Path) -> None:
    """A verifier of another model goes away after three tokens, and comes back."""
    away = answers(http(b"<html>", status="503 Service Unavailable", content_type="text/html"))
    peer, clock = HostilePeer(other_card(drafter), away, good=3), FastClock()
    async with (
        peer.serving() as url,
        assistant(drafter, database, url, settings=chosen("queue"), clock=clock) as opened,
    ):
        await opened.settled()
        clock.hurry(20.0)
        conversation = opened.store.conversations.create("test").id
        heard = await ask(opened, QUESTION, conversation)
        said = drafter.text.decode([5, 5, 5])
        assert heard.text == said and heard.done is None and "offline" not in heard.modes
        assert heard.failed is not None and heard.failed.queued and "The rest follows" in heard.failed.message
        answer = opened.store.branches.thread(conversation)[-1]
        assert (answer.text, answer.status, answer.tokens) == (said, "failed", (5, 5, 5))
        assert [queued.message_id for queued in opened.outbox.queued()] == [answer.id]
        peer.good = 1 << 30
        sent = Heard()
        async for due in opened.due():
            async for event in opened.send(due):
                sent.apply(event)
            if sent.done is not None:
                break
        whole = opened.store.branches.thread(conversation)[-1]
        assert (whole.tokens, whole.status) == ((5,) * 8, "done") and all(whole.provenance)
        assert opened.outbox.queued() == []


@pytest.mark.parametrize("offline", ["queue", "drafter"])
async def test_a_wrong_token_is_an_error_and_nobody_answers(drafter: Drafter, database: Path, offline: str) -> None:
    body = json.dumps({"error": {"message": "Invalid API key", "code": "invalid_api_key"}}).encode()
    async with raw_peer(lambda _: http(body, status="401 Unauthorized", content_type="application/json")) as port:
        url = f"http://127.0.0.1:{port}"
        async with assistant(drafter, database, url, settings=chosen(offline)) as opened:
            heard = await ask(opened, QUESTION)
            fails(heard)
            assert heard.failed is not None and not heard.failed.queued
            assert opened.outbox.queued() == []


async def test_what_is_remembered_survives_a_broken_file(file: Path) -> None:
    file.write_text("{nonsense")
    seen = LastSeen(file)
    assert seen.memory(NOBODY) is None
    seen.note(NOBODY, bytes(16))
    assert LastSeen(file).memory(NOBODY + "/") == bytes(16)
    file.write_text(json.dumps({f"http://127.0.0.1:{number}": "" for number in range(300)}))
    LastSeen(file).note(NOBODY, bytes(16))
    kept = json.loads(file.read_text())
    assert len(kept) == 200 and NOBODY in kept and "http://127.0.0.1:1" not in kept


@pytest.mark.parametrize("offline", [None, "queue", "drafter"])
def test_on_the_command_line(
    tiny_pair: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    offline: str | None,
) -> None:
    """The default is a sentence and exit code 3, with nothing on stdout."""
    command = runner(monkeypatch, capsys, tmp_path, tiny_pair / "drafter")
    if offline is not None:
        monkeypatch.setenv("OUTRIDER_OFFLINE", offline)
    asked = command("ask", QUESTION, "--remote", NOBODY, "--max-tokens", "8")
    waiting = command("queue").out
    if offline == "drafter":
        assert asked.code == 0 and asked.out and waiting == ""
    else:
        assert asked.code == 3 and asked.out == "" and "no other model answers in its place" in asked.err
        assert ("outrider ask --queue" in asked.err) == (offline is None)
        assert (QUESTION in waiting) == (offline == "queue") == ("outrider queue send" in asked.err)
