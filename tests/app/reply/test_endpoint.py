"""Answers by OpenAI-compatible servers, a verifier's own and others: whole, cut off, late and failed."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.config import Settings
from app.events import Drafted, ModeChanged, Reasoned, Redrawn, ReplyText, Stretch, unchecked
from app.remotes.source import RemoteSource
from app.reply.answer import Answer
from app.reply.assistant import Assistant
from app.reply.endpoint import Continuation, Diverged
from app.reply.judgement import drafted
from app.sanitise import sanitise
from app.tui.turn import Turn
from storage import Message, Store
from tests.app.reply.conftest import Connect
from tests.remote.toy_verifier import http, listening, request_of
from tests.support.chat_server import ChatServer, Script
from tests.support.chat_server import event as said_by_server
from tests.support.clock import HeldClock
from tests.support.conversing import Heard, ask, ask_once, hear
from tests.support.messages_server import OLD, MessagesServer, Reply, claude
from tests.support.patience import PATIENCE_SECONDS
from tests.support.serving import VerifierProcess
from tests.support.tiny_text import tiny_text

PATIENCE = 60.0
QUESTION = "how do I unpack a tar archive?"


def whole(heard: Heard, database: Path) -> str:
    """The answer's text, which was shown and is stored; it has no tokens, and nothing of it is verified."""
    with Store.open(database) as store:
        [message] = store.branches.thread(store.conversations.all()[0].id)[-1:]
    assert heard.text == message.text
    assert message.tokens == message.provenance == heard.done.token_ids == heard.done.provenance == ()
    assert heard.done.stats.verified == heard.done.stats.rounds == 0 and heard.done.stats.streamed is not None
    assert message.stats["streamed"] == heard.done.stats.streamed and message.stats["tau"] is None
    assert not heard.done.stretches and not unchecked(message.stats), "no model on this device took part"
    return heard.text


# ---- whole answers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.0, 0.8])
async def test_a_verifiers_chat_address_answers_with_the_targets_own_text(
    verifier: VerifierProcess, database: Path, tmp_path: Path, temperature: float, connect: Connect, served: Connect
) -> None:
    settings = Settings(max_tokens=40, temperature=temperature, seed=7)
    hosted = served(settings=settings, modes=("hosted",), database=tmp_path / "hosted.db")
    expected = (await ask_once(hosted, QUESTION)).text
    async with connect(verifier.url + "/v1", settings=settings) as opened:
        heard = await ask(opened, QUESTION)
        assert opened.status() == ModeChanged("hosted", heard.why[-1])
    said = whole(heard, database)
    assert said == expected[: len(said)] and len(said) > 20
    assert (heard.done.reason, heard.done.cut) == ("length", "cut at 40 tokens (max_tokens)")
    assert heard.modes[-1] == "hosted"
    assert heard.why[-1] == f"answered by target at 127.0.0.1:{verifier.port}"
    stats = heard.done.stats
    assert stats.streamed == 40 and stats.counted and stats.bytes_down > stats.bytes_up > 0 and stats.rtt_ms


@pytest.mark.parametrize(
    ("settings", "first", "second"),
    [
        (Settings(), {}, {}),
        (Settings(seed=5, top_p=0.9), {"seed": 5, "top_p": 0.9}, {"seed": 6, "top_p": 0.9}),
        (Settings(temperature=0.0), {"temperature": 0.0}, {"temperature": 0.8}),
        (Settings(temperature=0.5), {"temperature": 0.5}, {"temperature": 0.5}),
    ],
)
async def test_the_server_chooses_a_temperature_unless_the_person_does(
    settings: Settings, first: dict[str, float], second: dict[str, float], connect: Connect
) -> None:
    server = ChatServer([Script(["hello"])])
    async with connect(server, settings=settings) as opened:
        heard = await ask(opened, QUESTION)
        again = await hear(opened.regenerate(heard.message))
        stored = opened.store.messages.get(heard.message)
    for asked, expected in zip(server.asked, (first, second), strict=True):
        sent = {name: asked[name] for name in ("temperature", "top_k", "top_p", "seed") if name in asked}
        if sent.get("temperature"):
            assert sent.pop("seed") >= 0
        assert sent == expected
    assert stored.stats["temperature"] == first.get("temperature")
    redrawn = [event.temperature for event in again.of(Redrawn)]
    assert redrawn == ([0.8] if settings.temperature == 0 else [])


async def test_edge_mode_needs_a_verifier(connect: Connect) -> None:
    server = ChatServer([Script(["hello"])])
    heard = await ask_once(connect(server, settings=Settings(mode="edge")), QUESTION)
    assert heard.failed is not None and "checks no drafts" in heard.failed.message and not server.asked


LIMIT, FILTER, BROKEN = "cut at a limit of 127.0.0.1", "the server's content filter ended it", "127.0.0.1 broke it off"
CUTS = {
    "eos": "", "STOP": "", "end_turn": "", "length": LIMIT, "model_length": LIMIT, "FinishReason.MAX_TOKENS": LIMIT,
    "model_context_window_exceeded": "the context of talker is full",
    "content_filter": FILTER, "PROHIBITED_CONTENT": FILTER,
    "network_error": f"{BROKEN} (network_error)", "abort": f"{BROKEN} (abort)",
    "insufficient_system_resource": f"{BROKEN} (insufficient_system_resource)",
    "solar_flare": '127.0.0.1 ended it for an unknown reason, "solar_flare"',
}  # fmt: skip


async def test_a_cut_is_told(connect: Connect) -> None:
    server = ChatServer([Script(["one ", "two"], reason=reason) for reason in CUTS])
    async with connect(server, settings=Settings()) as opened:
        for reason, cut in CUTS.items():
            heard = await ask(opened, QUESTION)
            stored = opened.store.messages.get(heard.message)
            [turn] = Turn.of_thread(opened.store.branches.thread(stored.conversation_id))
            assert heard.done and heard.text == stored.text == "one two", reason
            assert heard.done.reason == ("end" if cut in ("", FILTER) else "length"), reason
            assert re.sub(r":\d+", "", heard.done.cut) == cut and turn.note == heard.done.cut, reason
            assert (heard.done.cut_by is not None) is bool(cut), reason
    server = ChatServer([Script(["one"], reason="length")])
    heard = await ask_once(connect(server, settings=Settings(max_tokens=9)), QUESTION)
    assert heard.done.cut == "cut at 9 tokens (max_tokens)"


async def test_stopping_hangs_up_and_keeps_what_came(database: Path, connect: Connect) -> None:
    server = ChatServer([Script(["tar ", "-xf "], hold=True)])
    async with connect(server) as opened:
        heard = await ask(opened, QUESTION, watch=lambda heard: heard.text == "tar -xf " and opened.stop())
        async with asyncio.timeout(PATIENCE):
            await server.hung_up.wait()
        assert heard.done.stopped and opened.store.messages.get(heard.message).status == "stopped"
    assert whole(heard, database) == "tar -xf "


# ---- cut off ---------------------------------------------------------------------------------------------------------

SAID = ["You ", "can ", "list ", "🦀 files", " with ", "ls -la", ", naïvely", "."]
FULL = "".join(SAID)


async def go_on(opened: Assistant) -> Heard:
    """The last answer, continued because the person asked for that."""
    return await hear(opened.resume(opened.store.branches.thread(opened.store.conversations.all()[0].id)[-1].id))


async def cut_and_resumed(server: ChatServer, connect: Connect) -> Heard:
    async with connect(server) as opened:
        await ask(opened, QUESTION)
        return await go_on(opened)


async def test_a_server_that_can_goes_on_where_it_was_cut_off(database: Path, connect: Connect) -> None:
    server = ChatServer([Script(SAID[:3], cut=True), Script(SAID[3:])], owner="vllm")
    assert whole(await cut_and_resumed(server, connect), database) == FULL
    assert len(server.asked) == 2 and server.asked[1]["continue_final_message"]
    assert server.asked[1]["messages"][-1] == {"role": "assistant", "content": "You can list"}


@pytest.mark.parametrize(("model", "again"), [(OLD, SAID[3:]), ("claude-haiku-5-5", SAID)])
async def test_anthropics_api_goes_on_in_the_way_of_each_model(
    model: str, again: list[str], database: Path, connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = MessagesServer([Reply(SAID[:3], cut=True), Reply(again)])
    async with server.listening() as port, connect(None) as opened:
        opened.use(RemoteSource("claude", claude(port, tmp_path / "home", monkeypatch, model)))
        await ask(opened, QUESTION)
        heard = await go_on(opened)
    assert whole(heard, database) == FULL and heard.done.stats.streamed == 12, "its own count"
    assert server.asked[1]["messages"][1] == {"role": "assistant", "content": "You can list"}
    assert not server.refused and len(server.asked) == 2


async def test_another_server_is_asked_anew_and_counts_from_the_cut(database: Path, connect: Connect) -> None:
    anew = Script(["You can", " list 🦀 fi", "les with ls -la, na", "ïvely."])
    server = ChatServer([Script(SAID[:4], cut=True), anew])
    assert whole(await cut_and_resumed(server, connect), database) == FULL
    first, second = server.asked
    assert first["messages"] == second["messages"] and "continue_final_message" not in second


async def test_a_server_that_says_something_else_then_is_not_joined(database: Path, connect: Connect) -> None:
    server = ChatServer([Script(SAID[:4], cut=True), Script(["Another answer, ", "which does not fit."])])
    heard = await cut_and_resumed(server, connect)
    with Store.open(database) as store:
        stored = store.branches.thread(store.conversations.all()[0].id)[-1]
        assert stored == store.messages.get(heard.message)
    assert heard.failed is not None and "began a different one" in heard.failed.message
    assert stored.text == "".join(SAID[:4]) and stored.tokens == () and len(server.asked) == 2
    assert not drafted(stored) and stored.stats["model"] == "talker"


async def test_a_server_that_refuses_to_go_on_leaves_its_text_as_it_was(connect: Connect) -> None:
    server = ChatServer([Script(SAID[:4], cut=True)])
    async with connect(server) as opened:
        cut = opened.store.messages.get((await ask(opened, QUESTION)).message)
        server.refuses = "The model talker was retired."
        heard = await go_on(opened)
        stored = opened.store.messages.get(heard.message)
    assert heard.failed is not None and stored.id != cut.id and stored.stats["model"] == "talker"
    assert (stored.text, stored.tokens, drafted(stored)) == (cut.text, (), False)
    assert heard.text == stored.text


async def test_a_verifiers_stopped_answer_goes_on_as_text(database: Path, connect: Connect, served: Connect) -> None:
    async with served(settings=Settings(mode="edge", max_tokens=60)) as opened:
        stopped = await ask(opened, QUESTION, watch=lambda heard: len(heard.reply.solid) > 10 and opened.stop())
        begun = opened.store.messages.get(stopped.message)
    async with connect(ChatServer([Script([" and more"])], owner="vllm")) as opened:
        rest = await go_on(opened)
    assert begun.tokens and any(begun.provenance)
    assert whole(rest, database) == rest.text and rest.text.endswith(" and more")


async def test_what_a_drafter_with_other_tokens_wrote_stays_marked(connect: Connect) -> None:
    async with connect(ChatServer([Script([" and more"])], owner="vllm")) as opened:
        begun = opened.store.messages.ask(opened.store.conversations.create("other").id, QUESTION, parent_id=None)
        opened.store.messages.finish(begun.id, [5, 6], [False, False], "list them", "stopped", {})
        rest = await go_on(opened)
    assert rest.text == "list them and more"
    assert rest.done.stretches == (Stretch(0, "small model", here=True), Stretch(9, "talker"))


# ---- joining ---------------------------------------------------------------------------------------------------------

words = st.text(alphabet="ab ïz🦀\n", max_size=30)


def pieces_of(text: str, sizes: list[int]) -> list[str]:
    pieces, at = [], 0
    while at < len(text):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(text[at : at + size])
        at += size
    return pieces


@given(words, words, st.lists(st.integers(1, 6), min_size=1, max_size=9), st.booleans())
def test_what_is_new_is_found_wherever_pieces_are_cut(known: str, rest: str, sizes: list[int], continues: bool) -> None:
    join = Continuation(known, continues=continues)
    again = known[len(known.rstrip()) :] if continues else known
    new = "".join(join.take(piece) for piece in pieces_of(again + rest, sizes))
    join.finish()
    assert known + new == known + rest


@given(words.filter(bool), words, st.lists(st.integers(1, 6), min_size=1, max_size=9))
def test_an_answer_that_begins_otherwise_is_refused(known: str, other: str, sizes: list[int]) -> None:
    if other.startswith(known):
        return
    join = Continuation(known, continues=False)
    with pytest.raises(Diverged):
        for piece in pieces_of(other, sizes):
            assert join.take(piece) == ""
        join.finish()


def test_white_space_that_a_server_gives_otherwise_after_a_cut_loses_nothing() -> None:
    join = Continuation("one \n", continues=True)
    assert join.sent == "one" and join.take(" two") == "two"


@given(st.lists(st.text(max_size=20), max_size=12), words)
def test_what_is_shown_of_told_text_is_what_is_stored(pieces: list[str], known: str) -> None:
    answer, replay = Answer(TEXT, sent=known), ReplyText()
    for event in (
        answer.begin_text(known) + [one for piece in pieces for one in answer.add_text(piece)] + answer.finish()
    ):
        replay.apply(event)
    assert answer.server_text == known + "".join(pieces) and answer.length == len(answer.server_text)
    assert replay.solid == answer.text == sanitise(answer.server_text) and not replay.ghost


TEXT = tiny_text()


# ---- how long a server may take, how often it is asked, and what becomes of an answer that fails ---------------------


JSON, SSE = "application/json", "text/event-stream"
DONE = b"data: [DONE]\n\n"
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


ONE = said_by_server({"content": "one "})
FAILURES = {
    "an error amid it": (stream(ONE, b'data: {"error":{"message":"Out of memory.","code":500}}\n\n'), "broken"),
    "only choices []": (stream(b'data: {"choices":[]}\n\n' * 3, DONE), "refused"),
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
        why = [one.why for one in heard.events if isinstance(one, ModeChanged)]
        assert any("is busy" in one for one in why) and "is busy" not in why[-1], "not while it answers"
        peer.answers = [busy]
        never = await ask(opened, QUESTION)
        *_, told = (one.why for one in never.events if isinstance(one, ModeChanged))
        assert "is busy" not in told, "nobody tries again any more"
    assert never.failed is not None and never.failed.code == "unavailable" and peer.asked == 3 + 4


async def test_a_server_that_wants_to_be_left_alone_for_long_is(connect: Connect) -> None:
    peer = Peer([error("429 Too Many", extra="retry-after: 3600\r\n")])
    heard = await ask_once(connect(peer, settings=Settings()), QUESTION)
    assert heard.failed is not None and peer.asked == 1


@pytest.mark.parametrize("alive", [b": OPENROUTER PROCESSING\n\n", said_by_server({"content": ""})])
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
    thoughts = [said_by_server({field: "hm "}) for field in ("reasoning_content", "reasoning", "thinking")] * 4
    parts: list[bytes | None] = [part for thought in thoughts for part in (thought, None)]
    peer = Peer([(http(b"", content_type=SSE), b": ping\n\n", *parts, said_by_server({"content": "Paris"}), DONE)])
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
    thought = said_by_server({"reasoning_content": "hm"})
    peer = Peer(
        [stream(thought, said_by_server({}, "length"), DONE), stream(thought, said_by_server({}, "stop"), DONE)]
    )
    async with connect(peer, settings=Settings()) as opened:
        cut, silent = await ask(opened, QUESTION), await ask(opened, QUESTION)
    assert "while it was still reasoning" in cut.done.cut
    assert silent.failed is not None and "reasoned, but said nothing" in silent.failed.message
    assert not any("is reasoning" in heard.why[-1] for heard in (cut, silent)), "it has ended"
