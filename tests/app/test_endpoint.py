"""Answers by OpenAI-compatible servers: a verifier's own, in a real process, and others; whole and cut off."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.answer import Answer
from app.assistant import Assistant
from app.config import Settings
from app.connection import Endpoint, Fixed
from app.doctor import examine
from app.endpoint import Diverged, Telling, spell
from app.events import Drafted, Event, ModeChanged, ReplyText, Retracted, Verified
from drafter.config import TOKENIZER, read_config, write_config
from drafter.runtime import Drafter
from drafter.text import ChatText
from remote import CompletionsClient, VerifierClient
from remote.openai import Model
from remote.protocol import Progress, Sampling, unpack_tokens
from storage import Store
from tests.app.chat_server import ChatServer, Script
from tests.app.conversing import Heard, ask, assistant, until_mode
from tests.remote.toy_verifier import listening
from tests.serving import VerifierProcess
from tests.tiny_text import tiny_text

PATIENCE = 60.0
QUESTION = "how do I unpack a tar archive?"
SETTINGS = Settings(max_tokens=40)
HOSTED = Settings(mode="hosted", max_tokens=40)
INSTEAD = Settings(offline="drafter", max_tokens=40)


@pytest.fixture(scope="module")
def drafter(tiny_pair: Path) -> Drafter:
    return Drafter.load(tiny_pair / "drafter")


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "outrider.db"


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


def whole(heard: Heard, text: ChatText, database: Path) -> str:
    """The answer's text, which is its tokens', what was shown, and what is stored."""
    assert heard.done is not None, heard.failed
    said = text.decode(heard.done.token_ids)
    store = Store.open(database)
    try:
        [message] = store.thread(store.conversations()[0].id)[-1:]
    finally:
        store.close()
    assert heard.text == message.text == said
    assert (message.tokens, message.provenance) == (heard.done.token_ids, heard.done.provenance)
    return said


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
    said = whole(heard, drafter.text, database)
    assert said == expected[: len(said)] and len(said) > 20
    assert heard.done is not None and all(heard.done.provenance) and heard.done.reason == "length"
    assert heard.modes[-1] == "hosted"
    assert why(heard)[-1] == f"answered by target at 127.0.0.1:{verifier.port}, without memory"
    stats = heard.done.stats
    assert stats.verified == len(heard.done.token_ids) and stats.bytes_down > stats.bytes_up > 0 and stats.rtt_ms


async def test_later_questions_come_with_what_was_said(drafter: Drafter, database: Path) -> None:
    server = ChatServer([Script(["tar -xf ", "naïve 🦀.tar"])])
    async with server.listening() as port, assistant(drafter, database, f"http://127.0.0.1:{port}") as opened:
        conversation = opened.store.create_conversation("two").id
        await ask(opened, QUESTION, conversation)
        second = await ask(opened, "why?", conversation)
    assert whole(second, drafter.text, database) == "tar -xf naïve 🦀.tar"
    assert second.done is not None and second.done.reason == "end"
    assert [(one["role"], one["content"]) for one in server.asked[1]["messages"]] == [
        ("user", QUESTION),
        ("assistant", "tar -xf naïve 🦀.tar"),
        ("user", "why?"),
    ]
    assert server.asked[0]["model"] == "talker" and server.asked[0]["max_tokens"] == 40


async def test_a_model_is_asked_for_by_name_and_others_are_told(drafter: Drafter, database: Path) -> None:
    server = ChatServer([Script(["hello"])])
    async with server.listening() as port:
        for name, model in (("other", "other"), ("third", None)):
            store = Store.open(database)
            source = Fixed(f"http://127.0.0.1:{port}", None, name)
            async with Assistant(drafter, store, source, HOSTED) as opened:
                heard = await ask(opened, QUESTION)
            store.close()
            if model is None:
                assert heard.failed is not None and heard.failed.code == "incompatible"
                assert "no model third" in heard.failed.message and "talker, other" in heard.failed.message
            else:
                assert server.asked[-1]["model"] == model


async def test_edge_mode_needs_a_verifier(drafter: Drafter, database: Path) -> None:
    server = ChatServer([Script(["hello"])])
    settings = Settings(mode="edge")
    async with (
        server.listening() as port,
        assistant(drafter, database, f"http://127.0.0.1:{port}", settings=settings) as opened,
    ):
        heard = await ask(opened, QUESTION)
    assert heard.failed is not None and "verifies no drafts" in heard.failed.message and not server.asked


async def test_an_answer_is_no_longer_than_wanted_and_ends_in_a_whole_character(
    drafter: Drafter, database: Path
) -> None:
    server, cuts = ChatServer([Script(["list ", "🦀🦀🦀" * 9, " more"])]), set()
    async with server.listening() as port:
        for most in range(7, 13):  # Four tokens a crab, so most of these fall into one.
            settings = Settings(max_tokens=most)
            async with assistant(drafter, database, f"http://127.0.0.1:{port}", settings=settings) as opened:
                heard = await ask(opened, QUESTION)
            said = whole(heard, drafter.text, database)
            assert heard.done is not None and heard.done.reason == "length" and len(heard.done.token_ids) <= most
            assert said.startswith("list 🦀") and ("list " + "🦀" * 27).startswith(said)
            cuts.add(most - len(heard.done.token_ids))
    assert cuts == {0, 1, 2, 3}


async def test_stopping_hangs_up_and_keeps_what_came(drafter: Drafter, database: Path) -> None:
    server = ChatServer([Script(["tar ", "-xf "], hold=True)])
    heard = Heard()
    async with server.listening() as port, assistant(drafter, database, f"http://127.0.0.1:{port}") as opened:
        conversation = opened.store.create_conversation("test").id
        async with aclosing(opened.reply(conversation, QUESTION)) as events:
            async for event in events:
                heard.apply(event)
                if heard.text == "tar -xf ":
                    opened.stop()
        async with asyncio.timeout(PATIENCE):
            await server.hung_up.wait()
        assert heard.done is not None and heard.done.stopped
        assert opened.store.thread(conversation)[-1].status == "stopped"
    assert whole(heard, drafter.text, database) == "tar -xf "


# ---- cut off ---------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def line(port: int, after: int) -> AsyncIterator[tuple[int, asyncio.Event]]:
    """Relays to `port`, but hangs up after so many bytes of an answer, and on everybody until the event is set."""
    back = asyncio.Event()
    cut = False

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, counted: bool) -> None:
        nonlocal cut
        streamed = 0
        while data := await reader.read(4096):
            writer.write(data)
            await writer.drain()
            streamed += len(data) if counted and (streamed or b"event-stream" in data) else 0
            if streamed > after and not cut:
                cut = True
                return

    async def serve(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if cut and not back.is_set():
            return
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", port)
        upward = asyncio.create_task(pump(reader, up_writer, False))
        try:
            await pump(up_reader, writer, True)
        finally:
            up_writer.close()
            upward.cancel()
            await asyncio.gather(upward, return_exceptions=True)

    async with listening(serve) as relay:
        yield relay, back


async def talk(opened: Assistant, back: Callable[[], None] | None = None, drafted: int = 5) -> tuple[Heard, str]:
    """One reply, and its verified text when the line broke.

    After so many tokens of the drafter's the line comes `back`, and the drafter is not asked for more until it is.
    """
    heard, verified, count = Heard(), "", 0
    conversation = opened.store.create_conversation("test").id
    async with aclosing(opened.reply(conversation, QUESTION)) as events:
        async for event in events:
            heard.apply(event)
            if isinstance(event, ModeChanged) and event.mode == "offline":
                verified, count = heard.reply.solid, 0
            count += event.tokens if isinstance(event, Drafted) else 0
            if back is not None and heard.reply.mode == "offline" and count >= drafted:
                back()
                await until_mode(opened, "hosted")
    return heard, verified


@pytest.mark.parametrize("after", [700, 2500])
async def test_a_server_that_can_goes_on_where_it_was_cut_off(
    verifier: VerifierProcess, drafter: Drafter, database: Path, after: int
) -> None:
    settings = Settings(offline="drafter", max_tokens=400)
    async with (
        line(verifier.port, after) as (port, back),
        assistant(drafter, database, f"http://127.0.0.1:{port}/v1", settings=settings) as opened,
    ):
        heard, verified = await talk(opened, back.set)
    said = whole(heard, drafter.text, database)
    assert [mode for mode in heard.modes if mode != "warming"] == ["hosted", "offline", "hosted"]
    assert heard.done is not None and all(heard.done.provenance) and len(heard.done.token_ids) > 200
    assert verified and said.startswith(verified) and len(said) > len(verified) + 20
    # The target's own answer up to the cut, and its own continuation of that text.
    assert (await own_text(verifier, drafter.text, Sampling())).startswith(verified[:40])
    async with CompletionsClient(verifier.url) as client:
        begun = [("user", QUESTION), ("assistant", verified.rstrip())]
        limits = {"deadline": PATIENCE, "silence": PATIENCE, "patience": PATIENCE}
        stream = await client.chat(begun, Sampling(), model="target", most=400, continued=True, **limits)
        rest = "".join([piece async for piece in stream])
    assert (verified.rstrip() + rest).startswith(said[: len(verified) + 100])


SAID = ["You ", "can ", "list ", "🦀 files", " with ", "ls -la", ", naïvely", "."]
FULL = "".join(SAID)


async def test_another_server_is_asked_anew_and_counts_from_where_it_was_cut_off(
    drafter: Drafter, database: Path
) -> None:
    server = ChatServer(
        [Script(SAID[:4], cut=True), Script(["You can", " list 🦀 fi", "les with ls -la, na", "ïvely."])]
    )
    server.leaves = True

    def back() -> None:
        server.away = server.leaves = False

    async with (
        server.listening() as port,
        assistant(drafter, database, f"http://127.0.0.1:{port}", settings=INSTEAD) as opened,
    ):
        heard, verified = await talk(opened, back)
    assert verified == "".join(SAID[:4])
    assert whole(heard, drafter.text, database) == FULL
    assert heard.done is not None and all(heard.done.provenance) and heard.done.reason == "end"
    assert any(isinstance(event, Drafted) for event in heard.events)
    first, second = server.asked
    assert first["messages"] == second["messages"] and "continue_final_message" not in second


@pytest.mark.parametrize("mode", ["auto", "hosted"])
async def test_a_server_that_says_something_else_then_is_not_joined(
    drafter: Drafter, database: Path, mode: str
) -> None:
    server = ChatServer([Script(SAID[:4], cut=True), Script(["Another answer, ", "which does not fit."])])
    settings = INSTEAD.replaced({"mode": mode}, "test")
    async with server.listening() as port:
        url = f"http://127.0.0.1:{port}"
        async with assistant(drafter, database, url, settings=settings) as opened:
            heard, _ = await talk(opened)
            stored = opened.store.thread(opened.store.conversations()[0].id)[-1]
    kept = "".join(SAID[:4])
    assert stored.text.startswith(kept) and len(server.asked) == 2
    if mode == "hosted":
        assert heard.failed is not None and "another one now" in heard.failed.message
        assert (stored.status, stored.text) == ("failed", kept)
    else:
        assert whole(heard, drafter.text, database).startswith(kept)
        assert heard.modes[-1] == "offline" and "gives another answer now" in why(heard)[-1]
        assert heard.done is not None and not all(heard.done.provenance)


async def test_a_server_that_is_never_back_leaves_the_answer_to_the_drafter(drafter: Drafter, database: Path) -> None:
    server = ChatServer([Script(SAID[:2], cut=True)], leaves=True)
    async with (
        server.listening() as port,
        assistant(drafter, database, f"http://127.0.0.1:{port}", settings=INSTEAD) as opened,
    ):
        heard, verified = await talk(opened)
    assert verified == "You can " and whole(heard, drafter.text, database).startswith(verified)
    assert heard.done is not None and len(heard.done.token_ids) == 40 and not heard.done.provenance[-1]


async def test_text_that_the_vocabulary_cannot_spell_is_kept_and_only_the_server_goes_on(
    tiny_pair: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "lower"
    shutil.copytree(tiny_pair / "drafter", folder)
    tokenizer = json.loads((folder / TOKENIZER).read_text())
    tokenizer["normalizer"] = {"type": "Lowercase"}
    (folder / TOKENIZER).write_text(json.dumps(tokenizer))
    write_config(folder, msgspec.structs.replace(read_config(folder), tokenizer=_digest(folder / TOKENIZER)))
    lower = Drafter.load(folder)
    server = ChatServer(
        [
            Script(["you can use ", "TAR", " -x"], cut=True),
            Script(["f NAME", "."]),
            Script(["ON AND ON "] * 1000, hold=True),
        ],
        owner="vllm",
    )
    async with (
        server.listening() as port,
        assistant(lower, tmp_path / "outrider.db", f"http://127.0.0.1:{port}") as opened,
    ):
        heard, _ = await talk(opened)
        stored = opened.store.thread(opened.store.conversations()[0].id)[-1]
        endless, _ = await talk(opened)
    assert endless.done is not None and endless.done.reason == "length" and len(endless.text) < 1000
    assert heard.text == stored.text == "you can use TAR -xf NAME."
    assert heard.done is not None and heard.done.token_ids == () == stored.tokens
    assert "offline" not in heard.modes and server.asked[1]["continue_final_message"]
    assert server.asked[1]["messages"][-1] == {"role": "assistant", "content": "you can use TAR -x"}


def _digest(path: Path) -> str:
    import hashlib

    return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()


# ---- text into tokens ------------------------------------------------------------------------------------------------

TEXT = tiny_text()
ENDPOINTS = {
    continues: Endpoint(CompletionsClient("http://127.0.0.1:1"), Model(id="m", owned_by="vllm" if continues else "x"))
    for continues in (True, False)
}
words = st.text(alphabet="ab ïz🦀\n", max_size=30)


def pieces_of(text: str, sizes: list[int]) -> list[str]:
    pieces, at = [], 0
    while at < len(text):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(text[at : at + size])
        at += size
    return pieces


@given(words, words, words, st.lists(st.integers(1, 6), min_size=1, max_size=9), st.booleans())
def test_whatever_was_written_alone_the_target_has_the_last_word(
    verified: str, rest: str, alone: str, sizes: list[int], continues: bool
) -> None:
    answer, replay = Answer(TEXT), ReplyText()
    shown: list[Event] = [*answer.verify(TEXT.encode(verified), 0)]
    for token in TEXT.encode(alone):
        shown += answer.draft(token)
    telling = Telling(ENDPOINTS[continues], [("user", "x")], answer, TEXT, 1000)
    for piece in pieces_of(telling._again + rest if continues else verified + rest, sizes):
        shown += telling.take(piece)
    shown += telling.finish()
    solid = ""
    for event in shown + answer.finish():
        replay.apply(event)
        assert replay.solid.startswith(solid)
        solid = replay.solid
    assert answer.said(len(answer.tokens)) == verified + rest
    assert replay.solid + replay.ghost == answer.text and all(answer.provenance)
    if rest.startswith(alone):
        assert not any(isinstance(event, Retracted) for event in shown)
        assert sum(event.from_draft for event in shown if isinstance(event, Verified)) == len(TEXT.encode(alone))


@given(words.filter(bool), words, st.lists(st.integers(1, 6), min_size=1, max_size=9))
def test_an_answer_that_begins_otherwise_is_refused_before_anything_changes(
    verified: str, other: str, sizes: list[int]
) -> None:
    if other.startswith(verified):
        return
    answer = Answer(TEXT)
    answer.verify(TEXT.encode(verified), 0)
    telling = Telling(ENDPOINTS[False], [("user", "x")], answer, TEXT, 1000)
    with pytest.raises(Diverged):
        for piece in pieces_of(other, sizes):
            assert telling.take(piece) == []
        telling.finish()
    assert answer.said(len(answer.tokens)) == verified


@given(st.lists(words, max_size=6))
def test_text_is_spelt_to_the_letter_piece_by_piece(pieces: list[str]) -> None:
    tokens: list[int] = []
    for piece in pieces:
        spelt = spell(TEXT, tokens, piece)
        assert spelt is not None
        tokens += spelt
        assert TEXT.decode(tokens).endswith(piece)
    assert TEXT.decode(tokens) == "".join(pieces)


def test_a_divergence_is_noticed_at_its_first_letter() -> None:
    answer = Answer(TEXT)
    answer.verify(TEXT.encode("one two"), 0)
    telling = Telling(ENDPOINTS[False], [("user", "x")], answer, TEXT, 1000)
    assert telling.take("one ") == []
    with pytest.raises(Diverged):
        telling.take("th")


def test_white_space_that_a_server_gives_otherwise_after_a_cut_loses_nothing() -> None:
    answer = Answer(TEXT)
    answer.verify(TEXT.encode("one \n"), 0)
    telling = Telling(ENDPOINTS[True], [("user", "x")], answer, TEXT, 1000)
    assert (telling._sent, telling._again) == ("one", " \n")
    telling.take(" two")
    telling.finish()
    assert answer.text == "one \ntwo"


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
    assert "an OpenAI-compatible server; target answers, without memory" in said and "is gone on with" in said
    async with ChatServer([Script(["x"])]).listening() as port:
        options["remote"] = f"http://127.0.0.1:{port}"
        assert await examine(options) == 0
        said = capsys.readouterr().out
        assert "talker of 2 models answers" in said and "is asked for anew" in said
        assert await examine({**options, "mode": "edge"}) == 1
        assert "verifies no drafts" in capsys.readouterr().out
        assert await examine({**options, "remote_model": "third"}) == 1
        assert "serves no model third" in capsys.readouterr().out
