"""How long an OpenAI-compatible server may take, how often it is asked, and what becomes of an answer that fails."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from app.config import Settings
from app.events import Drafted, ModeChanged, Reasoned
from app.remotes.registry import Remote
from app.remotes.source import AddressSource, options_of
from app.reply.assistant import Assistant
from app.reply.routing import Options
from drafter.runtime import Drafter
from drafter.shelf import Drafters
from remote import TransportOptions
from storage import Store
from tests.remote.toy_verifier import http, listening
from tests.support.chat_server import event
from tests.support.conversing import Heard, ask, assistant

JSON, SSE = "application/json", "text/event-stream"
DONE = b"data: [DONE]\n\n"
QUESTION = "what is the capital of France"
PATIENCE = 60.0
SHORT = Settings(first_words_timeout=0.3)


def error(status: str, message: str = "No.", code: Any = None, extra: str = "") -> bytes:
    body = json.dumps({"error": {"message": message, "code": code}}).encode()
    return http(body, status=status, content_type=JSON, extra=extra)


def stream(*parts: bytes) -> bytes:
    return http(b"".join(parts), content_type=SSE)


@dataclass
class Peer:
    """Answers the nth question by `answers[n]`, the last one again and again; bytes, or a wait for an event."""

    answers: Sequence[bytes | tuple[bytes | asyncio.Event, ...]]
    listed: bytes = b'{"object":"list","data":[{"id":"m"}]}'
    asked: int = 0
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def opened(
        self, drafter: Drafter, database: Path, settings: Settings | None = None
    ) -> AsyncIterator[Assistant]:
        async with (
            listening(self._serve) as port,
            assistant(drafter, database, f"http://127.0.0.1:{port}", settings=settings or Settings()) as opened,
        ):
            yield opened

    async def _serve(self, _: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        path = head.split(b" ")[1]
        if path == b"/v1/models":
            writer.write(http(self.listed, content_type=JSON))
        elif path == b"/v1/chat/completions":
            size = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            await reader.readexactly(size)
            self.asked += 1
            self.arrived.set()
            answer = self.answers[min(self.asked, len(self.answers)) - 1]
            for part in answer if isinstance(answer, tuple) else (answer,):
                if isinstance(part, asyncio.Event):
                    await part.wait()
                else:
                    writer.write(part)
                    await writer.drain()
        else:
            writer.write(error("404 Not Found"))
        await writer.drain()


# ---- once ------------------------------------------------------------------------------------------------------------

ONE = event({"content": "one "})
FAILURES = {
    "an error amid it": (stream(ONE, b'data: {"error":{"message":"Out of memory.","code":500}}\n\n'), "broken"),
    "no end": (stream(ONE), "broken"),
    "only choices []": (stream(b'data: {"choices":[]}\n\n' * 3, DONE), "refused"),
    "no JSON": (stream(ONE, b"data: hello\n\n"), "broken"),
    "nothing at all": (b"", "broken"),
    "500": (error("500 No"), "refused"),
    "401": (error("401 No", code="invalid_api_key"), "refused"),
    "403": (error("403 No"), "refused"),
    "400": (error("400 No"), "refused"),
    "an unknown model": (error("404 No", "model 'm' not found"), "refused"),
    "full": (error("400 No", "the request exceeds the available context size, try increasing it"), "too_long"),
    "a page": (http(b"<html>", content_type="text/html"), "broken"),
    "a redirect": (http(b"", status="302 Found", extra="location: http://elsewhere/\r\n"), "broken"),
}


@pytest.mark.parametrize("mode", ["auto", "hosted"])
@pytest.mark.parametrize("name", FAILURES)
async def test_a_question_is_sent_once_and_its_failure_is_told(
    drafter: Drafter, database: Path, name: str, mode: str
) -> None:
    answer, code = FAILURES[name]
    peer = Peer([answer])
    settings = Settings(offline="drafter").replaced({"mode": mode}, "test")
    async with asyncio.timeout(PATIENCE), peer.opened(drafter, database, settings) as opened:
        heard = await ask(opened, QUESTION)
        stored = opened.store.branches.thread(opened.store.conversations.all()[0].id)[-1]
        assert opened.outbox.queued() == []
    assert heard.failed is not None and heard.failed.code == code, heard
    assert peer.asked == 1 and not any(isinstance(one, Drafted) for one in heard.events)
    assert (stored.status, stored.text) == ("failed", heard.text) and "one ".startswith(heard.text)


async def test_a_queued_question_that_may_have_been_paid_for_leaves_the_queue(drafter: Drafter, database: Path) -> None:
    peer = Peer([stream(ONE)])
    async with asyncio.timeout(PATIENCE), peer.opened(drafter, database) as opened:
        conversation = opened.store.conversations.create("test").id
        opened.outbox.enqueue(conversation, QUESTION)
        await opened.settled()
        async with aclosing(opened.due()) as due:
            async for queued in due:
                heard = Heard()
                async with aclosing(opened.send(queued)) as events:
                    async for one in events:
                        heard.apply(one)
                break
        assert heard.failed is not None and heard.failed.code == "broken"
        assert opened.outbox.queued() == [] and peer.asked == 1


@pytest.mark.parametrize("ending", [DONE, event({}, "stop"), event({}, "stop") + DONE])
async def test_an_answer_is_whole_where_the_server_says_so_in_either_way(
    drafter: Drafter, database: Path, ending: bytes
) -> None:
    peer = Peer([stream(ONE, ending)])
    async with asyncio.timeout(PATIENCE), peer.opened(drafter, database) as opened:
        heard = await ask(opened, QUESTION)
    assert heard.done is not None and (heard.done.reason, heard.text, peer.asked) == ("end", "one ", 1)


@pytest.mark.parametrize("status", ["429 Too Many", "503 Loading model"])
async def test_a_server_that_has_not_begun_is_asked_again_a_few_times(
    drafter: Drafter, database: Path, status: str
) -> None:
    busy = error(status, extra="retry-after: 0\r\n")
    peer = Peer([busy, busy, stream(ONE, DONE)])
    async with asyncio.timeout(PATIENCE), peer.opened(drafter, database) as opened:
        heard = await ask(opened, QUESTION)
        assert heard.done is not None and heard.text == "one " and peer.asked == 3
        assert any(isinstance(one, ModeChanged) and "is busy" in one.why for one in heard.events)
        peer.answers = [busy]
        never = await ask(opened, QUESTION)
    assert never.failed is not None and never.failed.code == "refused" and peer.asked == 3 + 4


async def test_a_server_that_wants_to_be_left_alone_for_long_is(drafter: Drafter, database: Path) -> None:
    peer = Peer([error("429 Too Many", extra="retry-after: 3600\r\n")])
    async with asyncio.timeout(PATIENCE), peer.opened(drafter, database) as opened:
        heard = await ask(opened, QUESTION)
    assert heard.failed is not None and peer.asked == 1


# ---- patience --------------------------------------------------------------------------------------------------------


def test_first_words_may_take_ten_minutes_unless_somebody_says_otherwise() -> None:
    assert Settings().first_words_timeout == 600
    remote = Remote(url="http://a", first_words_timeout=1800)
    assert options_of(remote).first_words_seconds == 1800


@pytest.mark.parametrize("alive", [b"", b": OPENROUTER PROCESSING\n\n", event({"content": ""}), b"data: {}\n\n"])
async def test_signs_of_life_do_not_replace_words_for_ever(drafter: Drafter, database: Path, alive: bytes) -> None:
    pause = asyncio.Event()
    peer = Peer([(http(b"", content_type=SSE), alive, alive, pause)])
    async with asyncio.timeout(PATIENCE), peer.opened(drafter, database, SHORT) as opened:
        heard = await ask(opened, QUESTION)
    assert heard.failed is not None and heard.failed.code == "broken" and "0.3 s" in heard.failed.message
    assert "first_words_timeout" in heard.failed.message and peer.asked == 1


async def test_reasoning_is_life_and_no_part_of_the_answer(drafter: Drafter, database: Path) -> None:
    thoughts = [b": ping\n\n"] + [event({field: "hm "}) for field in ("reasoning_content", "reasoning", "thinking")] * 4
    parts: list[Any] = [http(b"", content_type=SSE)]
    for thought in thoughts:
        parts.append(thought)
    peer = Peer([(*parts, event({"content": "Paris"}), event({}, "stop"), DONE)])
    async with asyncio.timeout(PATIENCE), peer.opened(drafter, database) as opened:
        heard = await ask(opened, QUESTION)
        stored = opened.store.branches.thread(opened.store.conversations.all()[0].id)[-1]
    assert heard.text == stored.text == "Paris" and heard.done is not None
    assert "".join(one.text for one in heard.events if isinstance(one, Reasoned)) == "hm " * 12


async def test_the_deadline_counts_from_the_last_word_of_reasoning(drafter: Drafter, database: Path) -> None:
    """Twelve thoughts, a tenth of a second apart, take four times as long as a word may."""

    async def serve(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if head.startswith(b"GET"):
            listed = b'{"data":[{"id":"m"}]}'
            writer.write(http(listed, content_type=JSON) if b"/models" in head.split(b" ")[1] else error("404 No"))
        else:
            writer.write(http(b"", content_type=SSE))
            for _ in range(12):
                writer.write(event({"reasoning_content": "hm "}))
                await writer.drain()
                await asyncio.sleep(0.1)
            writer.write(stream(ONE, DONE).partition(b"\r\n\r\n")[2])
        await writer.drain()

    async with asyncio.timeout(PATIENCE), listening(serve) as port:
        url = f"http://127.0.0.1:{port}"
        async with assistant(drafter, database, url, settings=Settings(first_words_timeout=0.9)) as opened:
            heard = await ask(opened, QUESTION)
    assert heard.done is not None and heard.text == "one "
    why = [one.why for one in heard.events if isinstance(one, ModeChanged)]
    assert why[-2].endswith("; m is reasoning") and why[-1] == why[-2].removesuffix("; m is reasoning")


@pytest.mark.parametrize("tag", [("<think>", "</think>"), ("<thinking>", "</thinking>"), ("[THINK]", "[/THINK]")])
async def test_reasoning_in_tags_is_taken_out_of_the_text(
    drafter: Drafter, database: Path, tag: tuple[str, str]
) -> None:
    whole = f"\n{tag[0]}\nwell, <b>hm</b>\n{tag[1]}\n\nParis, not <think>"
    for size in (1, 3, 99):
        pieces = [event({"content": whole[at : at + size]}) for at in range(0, len(whole), size)]
        peer = Peer([stream(*pieces, DONE)])
        async with asyncio.timeout(PATIENCE), peer.opened(drafter, database) as opened:
            heard = await ask(opened, QUESTION)
        assert heard.text == "Paris, not <think>"
        assert "".join(one.text for one in heard.events if isinstance(one, Reasoned)) == "\nwell, <b>hm</b>\n"


async def test_a_model_that_only_reasons_is_told_as_that(drafter: Drafter, database: Path) -> None:
    thought = event({"reasoning_content": "hm"})
    peer = Peer([stream(thought, event({}, "length"), DONE), stream(thought, event({}, "stop"), DONE)])
    async with asyncio.timeout(PATIENCE), peer.opened(drafter, database) as opened:
        cut, silent = await ask(opened, QUESTION), await ask(opened, QUESTION)
    assert cut.done is not None and "while it was still reasoning" in cut.done.cut
    assert silent.failed is not None and "reasoned, but said nothing" in silent.failed.message


async def test_silence_after_words_ends_the_answer_and_keeps_them(
    drafter: Drafter, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AddressSource, "options", TransportOptions())
    peer = Peer([(stream(ONE), asyncio.Event())])
    store = Store.open(database)
    async with asyncio.timeout(PATIENCE), listening(peer._serve) as port:
        source = AddressSource(f"http://127.0.0.1:{port}")
        source.chat.options = TransportOptions(read_seconds=0.3)
        async with Assistant(store, Options(Drafters(drafter), source, Settings())) as opened:
            heard = await ask(opened, QUESTION)
    store.close()
    assert heard.failed is not None and heard.failed.code == "broken" and "silent for 0.3 s" in heard.failed.message
    assert heard.text == "one "
