"""An answer that was written offline, and a server that checks no drafts: it answers again, and the texts are compared.

The servers are played back from `tests/remote/openai/dialects`, or made of the same parts.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from app.config import Settings
from app.events import AnsweredAgain, Judged, ModeChanged
from app.reply.assistant import Assistant
from app.reply.judgement import stored_judgement
from app.tui.turn import Turn
from drafter.runtime import Drafter
from storage import Message
from tests.support.chat_server import ChatServer, Script
from tests.support.conversing import Heard, ask, assistant, until_connected
from tests.support.dialects import PLAIN, Exchange, Playback, exchange

QUESTION = "list files"
DRAFT = "Run ls -l here"
NEVER = ("verif", "check", "tau", "τ", "target")
"""Words that mean nothing for a server that checks no drafts."""
NO_LIMIT = Settings()


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def drafted(opened: Assistant, text: str = DRAFT, verified: int = 0) -> Message:
    """A stored answer that was written offline, but for its first tokens."""
    conversation = opened.store.conversations.create("offline").id
    answer = opened.store.messages.ask(conversation, QUESTION, parent_id=None)
    tokens = opened.backend.routing.drafters.first.text.encode(text)
    provenance = [at < verified for at in range(len(tokens))]
    opened.store.messages.finish(answer.id, tokens, provenance, text, "done", {})
    return opened.store.messages.get(answer.id)


async def verify(opened: Assistant, message_id: str) -> tuple[Heard, Judged | None]:
    heard = Heard()
    async with aclosing(opened.verify(message_id)) as events:
        async for event in events:
            heard.apply(event)
    return heard, next((event for event in heard.events if isinstance(event, Judged)), None)


def service(*stream: Any, **more: Any) -> Exchange:
    """A service of our own making."""
    return Exchange("made up", "answers", {}, stream or PLAIN, **more)


def counted(kept: int, dropped: int) -> dict[str, Any]:
    details = {"accepted_prediction_tokens": kept, "rejected_prediction_tokens": dropped}
    return {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 8, "completion_tokens_details": details}}


COUNTING = service(*PLAIN[:2], counted(3, 2), "[DONE]")
SILENT = service()
AGAIN, KEPT = "answered again by talker", "talker got the offline answer as a suggestion and kept 3 of 5 tokens"
REFUSING = exchange("openai", "a model without predicted outputs")


@pytest.mark.parametrize(
    ("server", "asked", "again", "said"),
    [
        (Playback(COUNTING), [True], AnsweredAgain("talker", True, (3, 2)), KEPT),
        (Playback(SILENT), [True], AnsweredAgain("talker", True), f"{AGAIN}, with the offline answer as a suggestion"),
        (Playback(REFUSING), [True, False], AnsweredAgain("talker", False), AGAIN),
        (Playback(SILENT, owner="vllm"), [False], AnsweredAgain("talker", False), AGAIN),
    ],
    ids=["counts", "says nothing", "refuses", "is known to ignore it"],
)
async def test_the_question_is_answered_again_and_the_note_says_how(
    drafter: Drafter, database: Path, server: Playback, asked: list[bool], again: AnsweredAgain, said: str
) -> None:
    server.asked.clear()
    async with (
        server.listening() as port,
        assistant(drafter, database, f"http://127.0.0.1:{port}", settings=NO_LIMIT) as opened,
    ):
        await until_connected(opened)
        answer = drafted(opened)
        heard, judged = await verify(opened, answer.id)
        assert heard.failed is None and heard.done is not None and heard.text == "ls -l"
        assert judged == Judged(answer.id, 2, 4, "Run\n\n… here", 5, again)
        assert str(judged) == f"{said}; 50 % of the words are the same"
        newer = opened.store.branches.thread(answer.conversation_id)[-1]
        assert (newer.id, newer.text, newer.tokens, newer.verifies) == (heard.message, "ls -l", (), answer.id)
        assert stored_judgement(newer, answer) == judged, "it is told the same when it is read again"
        assert newer.stats["tau"] is None and newer.stats["model"] == "talker"
        assert opened.store.messages.get(answer.id) == answer, "the offline answer stays as it was"
        branches = opened.store.messages.of(answer.conversation_id)
        [turn] = Turn.of_thread(opened.store.branches.thread(answer.conversation_id), branches)
        assert str(judged) in turn.note and turn.dropped == "Run\n\n… here" and turn.answered_again
        assert not any(word in turn.note.lower() for word in NEVER), turn.note
        assert [request.get("prediction") == {"type": "content", "content": DRAFT} for request in server.asked] == asked
        assert all([one["role"] for one in request["messages"]][-1] == "user" for request in server.asked)
        first = len(server.asked)
        await verify(opened, drafted(opened).id)
        assert len(server.asked) == first + 1, "what it refused is remembered"


async def test_the_draft_stays_in_sight_until_the_first_words(drafter: Drafter, database: Path) -> None:
    server = Playback(SILENT)
    async with server.listening() as port, assistant(drafter, database, f"http://127.0.0.1:{port}") as opened:
        await until_connected(opened)
        answer, shown = drafted(opened), []
        heard = Heard()
        async with aclosing(opened.verify(answer.id)) as events:
            async for event in events:
                heard.apply(event)
                shown.append((heard.reply.solid, heard.reply.ghost))
    assert ("", DRAFT) in shown and shown[-1] == ("ls -l", "")
    assert not any(solid and ghost for solid, ghost in shown), "no part of the draft passes for the server's words"


async def test_an_answer_that_was_partly_read_by_a_verifier_is_answered_as_a_whole(
    drafter: Drafter, database: Path
) -> None:
    server = Playback(SILENT)
    async with server.listening() as port, assistant(drafter, database, f"http://127.0.0.1:{port}") as opened:
        await until_connected(opened)
        heard, judged = await verify(opened, drafted(opened, verified=2).id)
    assert heard.text == "ls -l" and judged is not None and (judged.kept, judged.of) == (2, 4)
    assert server.asked[0]["prediction"]["content"] == DRAFT and len(server.asked[0]["messages"]) == 1


async def test_one_that_was_cut_off_offline_goes_on_as_a_new_answer(drafter: Drafter, database: Path) -> None:
    server = Playback(COUNTING)
    async with server.listening() as port, assistant(drafter, database, f"http://127.0.0.1:{port}") as opened:
        await until_connected(opened)
        conversation = opened.store.conversations.create("offline").id
        answer = opened.store.messages.ask(conversation, QUESTION, parent_id=None)
        tokens = opened.backend.routing.drafters.first.text.encode(DRAFT)
        opened.store.messages.finish(answer.id, tokens, [False] * len(tokens), DRAFT, "stopped", {})
        heard = Heard()
        async with aclosing(opened.resume(answer.id)) as events:
            async for event in events:
                heard.apply(event)
    judged = next(event for event in heard.events if isinstance(event, Judged))
    assert heard.text == "ls -l" and judged.again == AnsweredAgain("talker", True, (3, 2))


async def test_what_waits_in_the_queue_is_answered_again(drafter: Drafter, database: Path) -> None:
    server = Playback(COUNTING)
    async with server.listening() as port, assistant(drafter, database, f"http://127.0.0.1:{port}") as opened:
        await until_connected(opened)
        answer = drafted(opened)
        opened.outbox.enqueue_verification(answer.id)
        heard = Heard()
        async with asyncio.timeout(60), aclosing(opened.due()) as due:
            queued = await anext(due)
            async with aclosing(opened.send(queued)) as events:
                async for event in events:
                    heard.apply(event)
        assert opened.outbox.queued() == [] and heard.text == "ls -l"
        assert opened.store.branches.thread(answer.conversation_id)[-1].id == heard.message


async def test_the_name_of_a_model_cannot_command_a_terminal(drafter: Drafter, database: Path) -> None:
    server = Playback(SILENT, model="tal\x1b[2Jk\ner")
    async with server.listening() as port, assistant(drafter, database, f"http://127.0.0.1:{port}") as opened:
        await until_connected(opened)
        answer = drafted(opened)
        heard, judged = await verify(opened, answer.id)
        newer = opened.store.messages.get(heard.message)
    assert judged is not None and "\x1b" not in str(judged) and "\n" not in str(judged)
    assert stored_judgement(newer, answer) == judged


async def test_a_streamed_answer_needs_none(drafter: Drafter, database: Path) -> None:
    server = Playback(SILENT)
    async with server.listening() as port, assistant(drafter, database, f"http://127.0.0.1:{port}") as opened:
        first = await ask(opened, QUESTION)
        heard, judged = await verify(opened, first.message)
    assert heard.failed is not None and "none of it was drafted here" in heard.failed.message
    assert judged is None and len(server.asked) == 1 and "prediction" not in server.asked[0]


async def test_stopped_it_leaves_the_offline_answer_in_its_place(drafter: Drafter, database: Path) -> None:
    server = ChatServer([Script(["Use "], hold=True)])
    async with server.listening() as port, assistant(drafter, database, f"http://127.0.0.1:{port}") as opened:
        await until_connected(opened)
        answer = drafted(opened)
        heard = Heard()
        async with aclosing(opened.verify(answer.id)) as events:
            async for event in events:
                heard.apply(event)
                if heard.reply.solid:
                    opened.stop()
        assert heard.done is not None and heard.done.stopped
        assert not any(isinstance(event, Judged) for event in heard.events)
        assert opened.store.branches.thread(answer.conversation_id)[-1] == answer
        assert opened.store.messages.get(heard.message).text == "Use "


# ---- dialects, through the whole assistant ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "cut", "reason"),
    [
        (exchange("openai", "cut at max_tokens"), "cut at a limit of 127.0.0.1", "length"),
        (exchange("azure_openai", "the filter ends an answer"), "the server's content filter ended it", "end"),
        (exchange("mistral", "reasoning in parts of another type"), "cut at a limit of 127.0.0.1", "length"),
        (exchange("deepseek", "the service breaks the answer off"), "127.0.0.1", "length"),
        (exchange("vllm", "an answer that the server gave up"), "127.0.0.1", "length"),
        (exchange("together", "its own word for the end"), "", "end"),
    ],
    ids=str,
)
async def test_what_cut_an_answer_is_told_in_every_dialect(
    drafter: Drafter, database: Path, told: Exchange, cut: str, reason: str
) -> None:
    async with (
        Playback(told).listening() as port,
        assistant(drafter, database, f"http://127.0.0.1:{port}", settings=NO_LIMIT) as opened,
    ):
        heard = await ask(opened, QUESTION)
    assert heard.done is not None and heard.text == told.expected["text"]
    assert heard.done.reason == reason and heard.done.cut.startswith(cut) and bool(heard.done.cut) is bool(cut)
    assert told.expected.get("cut", "") in heard.done.cut
    if "usage" in told.expected:
        assert heard.done.stats.streamed == told.expected["usage"][1] and heard.done.stats.counted


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (exchange("openai", "wrong key"), "check the token of this server"),
        (exchange("openai", "context too long"), "Start a new conversation"),
        (exchange("gemini", "wrong key: 400, in a list"), "check the token of this server"),
        (exchange("mistral", "a complaint about a message"), "messages.0.user.name: Extra inputs"),
        (exchange("openrouter", "no money left"), "Insufficient credits"),
        (exchange("ollama", "unknown model"), "try pulling it first"),
        (exchange("lm_studio", "the context is too long, inside a stream"), "Start a new conversation"),
        (exchange("sglang", "an error in the stream"), "The request is aborted. The part that arrived is kept"),
    ],
    ids=str,
)
async def test_an_error_says_what_to_do_in_every_dialect(
    drafter: Drafter, database: Path, told: Exchange, said: str
) -> None:
    server = Playback(told)
    async with server.listening() as port, assistant(drafter, database, f"http://127.0.0.1:{port}") as opened:
        heard = await ask(opened, QUESTION)
    assert heard.failed is not None and said in heard.failed.message, heard.failed
    assert len(server.asked) == 1


@pytest.mark.parametrize("temperature", [0.0, 0.5])
async def test_a_field_of_the_sampling_that_was_chosen_and_is_not_taken_is_told(
    drafter: Drafter, database: Path, temperature: float
) -> None:
    server, settings = (
        Playback(exchange("openai", "a reasoning model takes no temperature")),
        Settings(temperature=temperature),
    )
    async with (
        server.listening() as port,
        assistant(drafter, database, f"http://127.0.0.1:{port}", settings=settings) as opened,
    ):
        heard = await ask(opened, QUESTION)
    assert heard.done is not None and heard.text == "ls -l"
    told = [event.why for event in heard.events if isinstance(event, ModeChanged)]
    assert told[-1].endswith("; the server does not accept temperature") == bool(temperature)
