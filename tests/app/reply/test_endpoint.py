"""Answers by OpenAI-compatible servers: a verifier's own, in a real process, and others; whole and cut off."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.cli.doctor import examine
from app.config import Settings
from app.events import Drafted, ModeChanged, Redrawn, ReplyText
from app.remotes.source import AddressSource
from app.reply.answer import Answer
from app.reply.assistant import Assistant
from app.reply.endpoint import Continuation, Diverged
from app.reply.routing import Options
from app.sanitise import sanitise
from app.tui.turn import Turn
from drafter.runtime import Drafter
from drafter.shelf import Drafters
from models.text.chat_text import ChatText
from remote import ChatStream, CompletionsClient, VerifierClient
from remote.protocol import Progress, Sampling, unpack_tokens
from storage import Store
from tests.support.chat_server import ChatServer, Script
from tests.support.conversing import Heard, ask, assistant
from tests.support.serving import VerifierProcess
from tests.support.tiny_text import counted_text, tiny_text

PATIENCE = 60.0
QUESTION = "how do I unpack a tar archive?"
SETTINGS = Settings(max_tokens=40)
HOSTED = Settings(mode="hosted", max_tokens=40)
INSTEAD = Settings(offline="drafter", max_tokens=40)


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


async def own_text(verifier: VerifierProcess, text: ChatText, sampling: Sampling) -> str:
    """What the target says to a device."""
    async with VerifierClient(verifier.url) as device:
        stream = await device.session().stream(
            text.render([("user", QUESTION)]), sampling, most=40, memory_from=None, deadline=PATIENCE, silence=PATIENCE
        )
        tokens = [one async for frame in stream if isinstance(frame, Progress) for one in unpack_tokens(frame.tokens)]
    return text.decode(tokens)


def why(heard: Heard) -> list[str]:
    return [event.why for event in heard.events if isinstance(event, ModeChanged)]


def whole(heard: Heard, database: Path) -> str:
    """The answer's text, which was shown and is stored; it has no tokens, and nothing of it is verified."""
    assert heard.done is not None, heard.failed
    with Store.open(database) as store:
        [message] = store.branches.thread(store.conversations.all()[0].id)[-1:]
    assert heard.text == message.text
    assert message.tokens == message.provenance == heard.done.token_ids == heard.done.provenance == ()
    assert heard.done.stats.verified == heard.done.stats.rounds == 0 and heard.done.stats.streamed is not None
    assert message.stats["streamed"] == heard.done.stats.streamed and message.stats["tau"] is None
    return heard.text


# ---- whole answers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.0, 0.8])
async def test_a_verifiers_chat_address_answers_with_the_targets_own_text(
    verifier: VerifierProcess, drafter: Drafter, database: Path, temperature: float
) -> None:
    settings = Settings(max_tokens=40, temperature=temperature, seed=7)
    async with assistant(drafter, database, verifier.url + "/v1", settings=settings) as opened:
        heard = await ask(opened, QUESTION)
        assert opened.status() == ModeChanged("hosted", why(heard)[-1])
    expected = await own_text(verifier, drafter.text, Sampling(temperature=temperature, seed=7))
    said = whole(heard, database)
    assert said == expected[: len(said)] and len(said) > 20
    assert (
        heard.done is not None and heard.done.reason == "length" and heard.done.cut == "cut at 40 tokens (max_tokens)"
    )
    assert heard.modes[-1] == "hosted"
    assert why(heard)[-1] == f"answered by target at 127.0.0.1:{verifier.port}"
    stats = heard.done.stats
    assert stats.streamed == 40 and stats.counted and stats.bytes_down > stats.bytes_up > 0 and stats.rtt_ms


async def test_later_questions_come_with_what_was_said(drafter: Drafter, database: Path) -> None:
    server = ChatServer([Script(["tar -xf ", "naïve 🦀.tar"])])
    async with server.listening() as port, assistant(drafter, database, f"http://127.0.0.1:{port}") as opened:
        conversation = opened.store.conversations.create("two").id
        await ask(opened, QUESTION, conversation)
        second = await ask(opened, "why?", conversation)
    assert whole(second, database) == "tar -xf naïve 🦀.tar"
    assert second.done is not None and second.done.reason == "end"
    assert [(one["role"], one["content"]) for one in server.asked[1]["messages"]] == [
        ("user", QUESTION),
        ("assistant", "tar -xf naïve 🦀.tar"),
        ("user", "why?"),
    ]
    assert server.asked[0]["model"] == "talker" and server.asked[0]["max_tokens"] == 40
    assert second.done.stats.streamed == 2 and not second.done.stats.counted


@pytest.mark.parametrize("strict", [False, True])
async def test_a_named_model_is_asked_for_whatever_the_server_lists(
    drafter: Drafter, database: Path, strict: bool
) -> None:
    server = ChatServer([Script(["hello"])], strict=strict)
    async with server.listening() as port:
        for name in ("other", "talker:online"):
            store = Store.open(database)
            source = AddressSource(f"http://127.0.0.1:{port}", None, name)
            async with Assistant(store, Options(Drafters(drafter), source, HOSTED)) as opened:
                heard = await ask(opened, QUESTION)
            store.close()
            assert server.asked[-1]["model"] == name
    if strict:
        assert heard.failed is not None and heard.failed.code == "refused"
        assert "No model talker:online" in heard.failed.message and "it lists talker, other" in heard.failed.message
    else:
        assert heard.done is not None and heard.text == "hello"


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
    drafter: Drafter, database: Path, settings: Settings, first: dict[str, float], second: dict[str, float]
) -> None:
    server = ChatServer([Script(["hello"])])
    async with (
        server.listening() as port,
        assistant(drafter, database, f"http://127.0.0.1:{port}", settings=settings) as opened,
    ):
        heard, again = await ask(opened, QUESTION), Heard()
        async with aclosing(opened.regenerate(heard.message)) as events:
            async for event in events:
                again.apply(event)
        stored = opened.store.messages.get(heard.message)
    for asked, expected in zip(server.asked, (first, second), strict=True):
        sent = {name: asked[name] for name in ("temperature", "top_k", "top_p", "seed") if name in asked}
        if sent.get("temperature"):
            assert sent.pop("seed") >= 0
        assert sent == expected
    assert stored.stats["temperature"] == first.get("temperature")
    redrawn = [event.temperature for event in again.events if isinstance(event, Redrawn)]
    assert redrawn == ([0.8] if settings.temperature == 0 else [])


async def test_an_imported_conversation_is_sent_in_the_form_that_servers_take(drafter: Drafter, database: Path) -> None:
    server = ChatServer([Script(["hello"])])
    async with server.listening() as port, assistant(drafter, database, f"http://127.0.0.1:{port}") as opened:
        conversation, last = opened.store.conversations.create("imported").id, None
        for role, text in (
            ("assistant", "Hi."),
            ("system", "Be brief."),
            ("user", "how?"),
            ("assistant", "So."),
            ("assistant", "Or so."),
            ("system", "Be polite."),
        ):
            last = opened.store.messages.add(conversation, role, text, parent_id=last, status="done").id  # type: ignore[arg-type]
        await ask(opened, QUESTION, conversation)
    assert [(one["role"], one["content"]) for one in server.asked[0]["messages"]] == [
        ("system", "Be brief.\n\nBe polite."),
        ("user", "Please begin."),
        ("assistant", "Hi."),
        ("user", "how?"),
        ("assistant", "So.\n\nOr so."),
        ("user", QUESTION),
    ]


async def test_edge_mode_needs_a_verifier(drafter: Drafter, database: Path) -> None:
    server = ChatServer([Script(["hello"])])
    settings = Settings(mode="edge")
    async with (
        server.listening() as port,
        assistant(drafter, database, f"http://127.0.0.1:{port}", settings=settings) as opened,
    ):
        heard = await ask(opened, QUESTION)
    assert heard.failed is not None and "checks no drafts" in heard.failed.message and not server.asked


async def test_no_limit_is_set_and_none_is_counted_here(drafter: Drafter, database: Path) -> None:
    words = [f"word{number} " for number in range(1200)]
    server = ChatServer([Script(words)])
    async with (
        server.listening() as port,
        assistant(drafter, database, f"http://127.0.0.1:{port}", settings=Settings()) as opened,
    ):
        heard = await ask(opened, QUESTION)
    assert "max_tokens" not in server.asked[0]
    assert whole(heard, database) == "".join(words)
    assert heard.done is not None and (heard.done.reason, heard.done.cut) == ("end", "")


async def test_a_conversation_longer_than_the_drafter_reads_is_asked_all_the_same(
    drafter: Drafter, database: Path
) -> None:
    server = ChatServer([Script(["short"])])
    async with server.listening() as port, assistant(drafter, database, f"http://127.0.0.1:{port}") as opened:
        heard = await ask(opened, "long question " * 9000)
    assert whole(heard, database) == "short"


@pytest.mark.parametrize(
    ("reason", "settings", "said", "cut"),
    [
        ("length", Settings(), "length", "cut at a limit of 127.0.0.1"),
        ("length", Settings(max_tokens=9), "length", "cut at 9 tokens (max_tokens)"),
        ("model_length", Settings(), "length", "cut at a limit of 127.0.0.1"),
        ("content_filter", Settings(), "end", "the server's content filter ended it"),
        ("eos", Settings(), "end", ""),
        ("STOP", Settings(), "end", ""),
        ("end_turn", Settings(), "end", ""),
        ("MAX_TOKENS", Settings(), "length", "cut at a limit of 127.0.0.1"),
        ("LENGTH", Settings(), "length", "cut at a limit of 127.0.0.1"),
        ("FinishReason.MAX_TOKENS", Settings(), "length", "cut at a limit of 127.0.0.1"),
        ("model_context_window_exceeded", Settings(), "length", "the context of talker is full"),
        ("SAFETY", Settings(), "end", "the server's content filter ended it"),
        ("PROHIBITED_CONTENT", Settings(), "end", "the server's content filter ended it"),
        ("network_error", Settings(), "length", "127.0.0.1"),
        ("cancelled", Settings(), "length", "127.0.0.1"),
        ("solar_flare", Settings(), "length", "127.0.0.1"),
    ],
)
async def test_a_cut_is_told(
    drafter: Drafter, database: Path, reason: str, settings: Settings, said: str, cut: str
) -> None:
    server = ChatServer([Script(["one ", "two"], reason=reason)])
    async with (
        server.listening() as port,
        assistant(drafter, database, f"http://127.0.0.1:{port}", settings=settings) as opened,
    ):
        heard = await ask(opened, QUESTION)
        [turn] = Turn.of_thread(opened.store.branches.thread(opened.store.conversations.all()[0].id))
    assert whole(heard, database) == "one two" and heard.done is not None
    assert heard.done.reason == said and heard.done.cut.startswith(cut) and bool(heard.done.cut) == bool(cut)
    assert turn.note == heard.done.cut and (heard.done.cut_by is not None) is bool(cut)
    if reason in ("network_error", "solar_flare"):
        assert reason in heard.done.cut


async def test_stopping_hangs_up_and_keeps_what_came(drafter: Drafter, database: Path) -> None:
    server = ChatServer([Script(["tar ", "-xf "], hold=True)])
    heard = Heard()
    async with server.listening() as port, assistant(drafter, database, f"http://127.0.0.1:{port}") as opened:
        conversation = opened.store.conversations.create("test").id
        async with aclosing(opened.reply(conversation, QUESTION)) as events:
            async for event in events:
                heard.apply(event)
                if heard.text == "tar -xf ":
                    opened.stop()
        async with asyncio.timeout(PATIENCE):
            await server.hung_up.wait()
        assert heard.done is not None and heard.done.stopped
        assert opened.store.branches.thread(conversation)[-1].status == "stopped"
    assert whole(heard, database) == "tar -xf "


async def test_an_answer_that_begins_while_its_reader_leaves_is_closed(
    drafter: Drafter, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, begin = ChatServer([Script(["tar "], hold=True)]), CompletionsClient.chat

    async def begun_too_late(client: CompletionsClient, *args: Any, **options: Any) -> ChatStream:
        stream = await begin(client, *args, **options)
        reading.cancel()
        return stream

    monkeypatch.setattr(CompletionsClient, "chat", begun_too_late)
    async with server.listening() as port, assistant(drafter, database, f"http://127.0.0.1:{port}") as opened:
        reading = asyncio.create_task(ask(opened, QUESTION))
        with pytest.raises(asyncio.CancelledError):
            await reading
        async with asyncio.timeout(PATIENCE):
            await server.hung_up.wait()


async def test_nothing_is_tokenised_for_a_server_that_reads_text(
    tiny_pair: Path, drafter: Drafter, database: Path
) -> None:
    """However long the conversation is, in none of the tokens that it has no use for; only where a drafter answers."""
    text, server = counted_text(), ChatServer([Script(["Then ", "ls."])])
    counted = Drafter(drafter.config, text, drafter._step, tiny_pair / "drafter", drafter.prompt)
    said = [("user", "list files"), ("assistant", "ls")] * 500
    taken = []
    async with server.listening() as port, assistant(counted, database, f"http://127.0.0.1:{port}") as opened:
        for history in ([], said):
            conversation = opened.store.conversations.create().id
            opened.store.messages.put(conversation, history)  # type: ignore[arg-type]
            text.taken()
            heard = await ask(opened, QUESTION, conversation)
            assert heard.done is not None and heard.text == "Then ls." and opened.context(conversation) is None
            taken.append(text.taken())
    assert taken[0] == taken[1]
    assert len(server.asked[1]["messages"]) == len(said) + 1
    async with assistant(counted, database, None, settings=Settings(max_tokens=8)) as opened:
        conversation = opened.store.conversations.create().id
        opened.store.messages.put(conversation, said[:200])  # type: ignore[arg-type]
        characters = []
        for _ in range(2):
            text.taken()
            assert (await ask(opened, QUESTION, conversation)).done is not None
            characters.append(text.taken()[0])
    assert characters[1] < characters[0] / 4, "what was read is kept for the next question"


# ---- cut off ---------------------------------------------------------------------------------------------------------

SAID = ["You ", "can ", "list ", "🦀 files", " with ", "ls -la", ", naïvely", "."]
FULL = "".join(SAID)


async def go_on(opened: Assistant) -> Heard:
    """The last answer, continued because the person asked for that."""
    heard = Heard()
    message = opened.store.branches.thread(opened.store.conversations.all()[0].id)[-1]
    async with aclosing(opened.resume(message.id)) as events:
        async for event in events:
            heard.apply(event)
    return heard


@pytest.mark.parametrize("settings", [SETTINGS, HOSTED, INSTEAD])
async def test_what_came_before_a_cut_is_kept_and_nothing_is_sent_again(
    drafter: Drafter, database: Path, settings: Settings
) -> None:
    server = ChatServer([Script(SAID[:4], cut=True), Script(["Another answer"])])
    async with (
        server.listening() as port,
        assistant(drafter, database, f"http://127.0.0.1:{port}", settings=settings) as opened,
    ):
        heard = await ask(opened, QUESTION)
        stored = opened.store.branches.thread(opened.store.conversations.all()[0].id)[-1]
        assert opened.outbox.queued() == []
    assert heard.failed is not None and heard.failed.code == "broken" and not heard.failed.queued
    assert "is kept" in heard.failed.message and "go on" in heard.failed.message
    assert heard.text == stored.text == "".join(SAID[:4]) and stored.status == "failed" and stored.tokens == ()
    assert len(server.asked) == 1 and not any(isinstance(event, Drafted) for event in heard.events)


async def test_a_server_that_can_goes_on_where_it_was_cut_off(drafter: Drafter, database: Path) -> None:
    server = ChatServer([Script(SAID[:3], cut=True), Script(SAID[3:])], owner="vllm")
    async with server.listening() as port, assistant(drafter, database, f"http://127.0.0.1:{port}") as opened:
        await ask(opened, QUESTION)
        heard = await go_on(opened)
    assert whole(heard, database) == FULL
    assert len(server.asked) == 2 and server.asked[1]["continue_final_message"]
    assert server.asked[1]["messages"][-1] == {"role": "assistant", "content": "You can list"}


async def test_a_verifiers_chat_address_goes_on_where_an_answer_was_stopped(
    verifier: VerifierProcess, drafter: Drafter, database: Path
) -> None:
    heard = Heard()
    async with assistant(drafter, database, verifier.url + "/v1", settings=Settings(max_tokens=60)) as opened:
        conversation = opened.store.conversations.create("test").id
        async with aclosing(opened.reply(conversation, QUESTION)) as events:
            async for event in events:
                heard.apply(event)
                if len(heard.text) > 20:
                    opened.stop()
        rest = await go_on(opened)
    assert heard.done is not None and heard.done.stopped
    assert whole(rest, database).startswith(heard.text) and len(rest.text) > len(heard.text)


async def test_another_server_is_asked_anew_and_counts_from_where_it_was_cut_off(
    drafter: Drafter, database: Path
) -> None:
    server = ChatServer(
        [Script(SAID[:4], cut=True), Script(["You can", " list 🦀 fi", "les with ls -la, na", "ïvely."])]
    )
    async with server.listening() as port, assistant(drafter, database, f"http://127.0.0.1:{port}") as opened:
        await ask(opened, QUESTION)
        heard = await go_on(opened)
    assert whole(heard, database) == FULL
    first, second = server.asked
    assert first["messages"] == second["messages"] and "continue_final_message" not in second


async def test_a_server_that_says_something_else_then_is_not_joined(drafter: Drafter, database: Path) -> None:
    server = ChatServer([Script(SAID[:4], cut=True), Script(["Another answer, ", "which does not fit."])])
    async with server.listening() as port, assistant(drafter, database, f"http://127.0.0.1:{port}") as opened:
        await ask(opened, QUESTION)
        heard = await go_on(opened)
        stored = opened.store.branches.thread(opened.store.conversations.all()[0].id)[-1]
    assert heard.failed is not None and "began a different one" in heard.failed.message
    assert stored.text == "".join(SAID[:4]) and stored.tokens == () and len(server.asked) == 2


async def test_a_stopped_answer_of_a_verifier_is_gone_on_with_as_text(
    verifier: VerifierProcess, drafter: Drafter, database: Path
) -> None:
    heard = Heard()
    async with assistant(drafter, database, verifier.url, settings=Settings(mode="edge", max_tokens=60)) as opened:
        conversation = opened.store.conversations.create("test").id
        async with aclosing(opened.reply(conversation, QUESTION)) as events:
            async for event in events:
                heard.apply(event)
                if len(heard.reply.solid) > 10:
                    opened.stop()
        begun = opened.store.branches.thread(conversation)[-1]
    server = ChatServer([Script([" and more"])], owner="vllm")
    async with server.listening() as port, assistant(drafter, database, f"http://127.0.0.1:{port}") as opened:
        rest = await go_on(opened)
    assert begun.tokens and any(begun.provenance)
    assert whole(rest, database) == rest.text and rest.text.endswith(" and more")


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
def test_what_is_new_is_told_apart_wherever_pieces_are_cut(
    known: str, rest: str, sizes: list[int], continues: bool
) -> None:
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


def test_a_divergence_is_noticed_at_its_first_letter() -> None:
    join = Continuation("one two", continues=False)
    assert join.take("one ") == ""
    with pytest.raises(Diverged):
        join.take("th")


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


# ---- doctor ----------------------------------------------------------------------------------------------------------


async def test_the_doctor_says_who_is_at_an_address(
    verifier: VerifierProcess,
    tiny_pair: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("OUTRIDER_HOME", str(tmp_path))
    options = {"drafter": str(tiny_pair / "drafter")}
    assert await examine({**options, "remote": verifier.url}) == 0
    assert "target answers; round trip" in capsys.readouterr().out
    assert await examine({**options, "remote": verifier.url + "/v1"}) == 0
    said = capsys.readouterr().out
    assert "an OpenAI-compatible server; target answers; round trip" in said and "can be continued" in said
    async with ChatServer([Script(["x"])], strict=True).listening() as port:
        options["remote"] = f"http://127.0.0.1:{port}"
        assert await examine(options) == 0
        said = capsys.readouterr().out
        assert "talker of 2 models answers" in said and "has to be asked for anew" in said
        assert await examine({**options, "mode": "edge"}) == 1
        assert "checks no drafts" in capsys.readouterr().out
        assert await examine({**options, "remote_model": "third"}) == 1
        said = capsys.readouterr().out
        assert "third, which the server does not list" in said and "refused (404): No model third" in said
