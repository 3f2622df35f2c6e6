"""How long an OpenAI-compatible server may take, how often it is asked, and what becomes of an answer that fails."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass, field
from typing import Any

import pytest

from app.config import Settings
from app.events import Drafted, ModeChanged, Reasoned
from app.remotes.registry import Remote
from app.remotes.source import options_of
from app.reply.assistant import Assistant
from storage import Message
from tests.app.reply.conftest import Connect
from tests.remote.toy_verifier import http, listening, request_of
from tests.support.chat_server import event
from tests.support.clock import HeldClock
from tests.support.conversing import Heard, ask, ask_once, hear
from tests.support.patience import PATIENCE_SECONDS

JSON, SSE = "application/json", "text/event-stream"
DONE = b"data: [DONE]\n\n"
QUESTION = "what is the capital of France"
SHORT = Settings(first_words_timeout=0.3)


def error(status: str, message: str = "No.", code: Any = None, extra: str = "") -> bytes:
    body = json.dumps({"error": {"message": message, "code": code}}).encode()
    return http(body, status=status, content_type=JSON, extra=extra)


def stream(*parts: bytes) -> bytes:
    return http(b"".join(parts), content_type=SSE)


@dataclass
class Peer:
    """Answers the nth question by `answers[n]`, the last one again and again: bytes, and pauses until `goes_on`."""

    answers: Sequence[bytes | tuple[bytes | None, ...]]
    asked: int = 0
    pauses: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when it has come to a pause."""
    goes_on: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))

    def listening(self) -> AbstractAsyncContextManager[int]:
        return listening(self._serve)

    async def _serve(self, _: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head, _ = await request_of(reader)
        path, answer = head.split(b" ")[1], (error("404 Not Found"),)
        if path == b"/v1/models":
            answer = (http(b'{"object":"list","data":[{"id":"m"}]}', content_type=JSON),)
        elif path == b"/v1/chat/completions":
            self.asked += 1
            told = self.answers[min(self.asked, len(self.answers)) - 1]
            answer = told if isinstance(told, tuple) else (told,)
        for part in answer:
            if part is None:
                self.pauses.set()
                await self.goes_on.acquire()
            else:
                writer.write(part)
                await writer.drain()


def last_stored(opened: Assistant) -> Message:
    return opened.store.branches.thread(opened.store.conversations.all()[0].id)[-1]


ONE = event({"content": "one "})
FAILURES = {
    "an error amid it": (stream(ONE, b'data: {"error":{"message":"Out of memory.","code":500}}\n\n'), "broken"),
    "only choices []": (stream(b'data: {"choices":[]}\n\n' * 3, DONE), "refused"),
    "nothing at all": (b"", "broken"),
    "500": (error("500 No"), "refused"),
    "401": (error("401 No", code="invalid_api_key"), "refused"),
    "full": (error("400 No", "the request exceeds the available context size, try increasing it"), "too_long"),
    "a redirect": (http(b"", status="302 Found", extra="location: http://elsewhere/\r\n"), "broken"),
}


@pytest.mark.parametrize("name", FAILURES)
async def test_a_question_is_sent_once_and_its_failure_is_told(connect: Connect, name: str) -> None:
    answer, code = FAILURES[name]
    peer = Peer([answer])
    async with connect(peer, settings=Settings(offline="drafter")) as opened:
        heard = await ask(opened, QUESTION)
        stored = last_stored(opened)
        assert opened.outbox.queued() == []
    assert heard.failed is not None and heard.failed.code == code, heard
    assert peer.asked == 1 and not heard.of(Drafted)
    assert (stored.status, stored.text) == ("failed", heard.text) and "one ".startswith(heard.text)


async def test_a_queued_question_that_may_have_been_paid_for_leaves_the_queue(connect: Connect) -> None:
    peer = Peer([stream(ONE)])
    async with connect(peer, settings=Settings()) as opened:
        conversation = opened.store.conversations.create("test").id
        opened.outbox.enqueue(conversation, QUESTION)
        await opened.settled()
        async with aclosing(opened.due()) as due:
            heard = await hear(opened.send(await anext(due)))
        assert heard.failed is not None and heard.failed.code == "broken"
        assert opened.outbox.queued() == [] and peer.asked == 1


@pytest.mark.parametrize("status", ["429 Too Many", "503 Loading model"])
async def test_a_server_that_has_not_begun_is_asked_again_a_few_times(connect: Connect, status: str) -> None:
    busy = error(status, extra="retry-after: 0\r\n")
    peer = Peer([busy, busy, stream(ONE, DONE)])
    async with connect(peer, settings=Settings()) as opened:
        heard = await ask(opened, QUESTION)
        assert heard.done and heard.text == "one " and peer.asked == 3
        assert any(isinstance(one, ModeChanged) and "is busy" in one.why for one in heard.events)
        peer.answers = [busy]
        never = await ask(opened, QUESTION)
    assert never.failed is not None and never.failed.code == "unavailable" and peer.asked == 3 + 4


async def test_a_server_that_wants_to_be_left_alone_for_long_is(connect: Connect) -> None:
    peer = Peer([error("429 Too Many", extra="retry-after: 3600\r\n")])
    heard = await ask_once(connect(peer, settings=Settings()), QUESTION)
    assert heard.failed is not None and peer.asked == 1


def test_a_remote_may_have_its_own_time_for_first_words() -> None:
    assert options_of(Remote(url="http://a", first_words_timeout=1800)).first_words_seconds == 1800


@pytest.mark.parametrize("alive", [b": OPENROUTER PROCESSING\n\n", event({"content": ""})])
async def test_signs_of_life_do_not_replace_words_for_ever(connect: Connect, alive: bytes) -> None:
    peer, clock = Peer([(http(b"", content_type=SSE), alive, alive, None)]), HeldClock()
    async with connect(peer, settings=SHORT, clock=clock) as opened:
        asking = asyncio.create_task(ask(opened, QUESTION))
        async with asyncio.timeout(PATIENCE_SECONDS):
            await peer.pauses.wait()
            clock.advance(0.3)
            heard = await asking
    assert heard.failed is not None and heard.failed.code == "broken" and "0.3 s" in heard.failed.message
    assert "first_words_timeout" in heard.failed.message and peer.asked == 1


async def test_the_deadline_counts_from_the_last_word_of_reasoning_which_is_no_answer(connect: Connect) -> None:
    """Twelve thoughts, a second apart, take longer than a word may."""
    thoughts = [event({field: "hm "}) for field in ("reasoning_content", "reasoning", "thinking")] * 4
    parts: list[bytes | None] = [part for thought in thoughts for part in (thought, None)]
    peer = Peer([(http(b"", content_type=SSE), b": ping\n\n", *parts, event({"content": "Paris"}), DONE)])
    clock, thought = HeldClock(), 0

    def go_on(heard: Heard) -> None:
        nonlocal thought
        if isinstance(heard.last, Reasoned):
            thought += 1
            clock.advance(1.0)
            peer.goes_on.release()

    async with connect(peer, settings=Settings(first_words_timeout=1.5), clock=clock) as opened:
        conversation = opened.store.conversations.create("test").id
        heard = await hear(opened.reply(conversation, QUESTION), go_on)
        assert thought == 12
        assert heard.done and heard.text == last_stored(opened).text == "Paris"
    assert "".join(one.text for one in heard.of(Reasoned)) == "hm " * 12
    *_, before, last = heard.why
    assert before.endswith("; m is reasoning") and last == before.removesuffix("; m is reasoning")


async def test_a_model_that_only_reasons_is_told_as_that(connect: Connect) -> None:
    thought = event({"reasoning_content": "hm"})
    peer = Peer([stream(thought, event({}, "length"), DONE), stream(thought, event({}, "stop"), DONE)])
    async with connect(peer, settings=Settings()) as opened:
        cut, silent = await ask(opened, QUESTION), await ask(opened, QUESTION)
    assert "while it was still reasoning" in cut.done.cut
    assert silent.failed is not None and "reasoned, but said nothing" in silent.failed.message
