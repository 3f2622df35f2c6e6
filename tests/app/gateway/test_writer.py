"""The line comes back while the drafter writes: the model goes on where it agrees, else the drafter ends the answer.

What a client has been sent only grows, ends before a stop string, and each character has the right mark.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.config import Settings
from app.events import Drafted, Event, ModeChanged, ReplyText
from app.gateway.answers import Answer, Answers
from app.gateway.call import read_call
from app.gateway.seats import Seat
from app.gateway.sent_text import Piece, SentText, Span
from app.gateway.writer import Writer
from app.remotes.last_seen import LastSeen
from app.remotes.peer import Verifier
from app.remotes.source import AddressSource
from app.reply.assistant import Assistant
from app.reply.routing import Options
from drafter.runtime import Drafter
from drafter.shelf import Drafters
from remote import TransportOptions
from storage import Message
from tests.app.gateway.conftest import own_text
from tests.app.reply.test_back_online import Local
from tests.support.chat_server import Script
from tests.support.conversing import until
from tests.support.fault_proxy import FaultProxy
from tests.support.faults import STREAM_BYTES, after, lasting, refused
from tests.support.patience import PATIENCE_SECONDS
from tests.support.serving import VerifierProcess

MOST = 160
SETTINGS = Settings(max_tokens=MOST, offline="fail")
TOPICS = ("a tar archive", "a zip file", "my photos", "the kernel", "logs", "a backup", "mail", "songs", "a disk image")


def begun(topic: str = TOPICS[0], **more: bool) -> Answer:
    body = {"messages": asked_about(topic), "temperature": 0, "max_tokens": MOST, **more}
    return Answers().begin(read_call(msgspec.json.encode(body)), "target")


def asked_about(topic: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": f"how do I unpack {topic}?"}]


QUESTION = asked_about(TOPICS[0])


def patient(proxy: FaultProxy) -> AddressSource:
    """The server behind this line, whose only faults are those of the test."""
    source = AddressSource(proxy.url)
    source.options = TransportOptions(read_seconds=PATIENCE_SECONDS)
    return source


async def until_back(assistant: Assistant, answer: Message) -> None:
    """Wait until the server of an answer is there."""
    connection = assistant.backend.routing.connection_of(answer.conversation_id)
    assert connection is not None
    async with asyncio.timeout(PATIENCE_SECONDS):
        while connection.verifier is None:
            await connection.changed()


class Interrupted(Assistant):
    """An assistant whose line is cut after 40 characters of an answer, and is back after the drafter's next words."""

    proxy: FaultProxy

    async def answer(self, message: Message) -> AsyncGenerator[Event, None]:
        text, cut, alone, words = ReplyText(), False, False, 0
        async with aclosing(super().answer(message)) as events:
            async for event in events:
                text.apply(event)
                yield event
                if len(text.solid) > 40 and not cut:
                    cut = True
                    await self.proxy.refuse()
                if isinstance(event, ModeChanged):
                    alone = event.mode == "offline"
                words += alone and isinstance(event, Drafted)
                if words == 20:
                    words += 1
                    await self.proxy.heal()
                    await until_back(self, message)


async def test_the_model_puts_right_what_is_sent_as_a_whole(verifier: VerifierProcess, drafter: Drafter) -> None:
    answer = begun()
    async with FaultProxy([verifier.port]) as proxy:
        seat = Seat(Options(Drafters(drafter), None, SETTINGS, seen=LastSeen()))
        await seat.assistant.close()
        interrupted = Interrupted(seat.store, Options(Drafters(drafter), patient(proxy), SETTINGS))
        seat.assistant, interrupted.proxy = interrupted, proxy
        pieces = [piece async for piece in Writer(answer, seat).pieces()]
        stored = seat.store.messages.get(answer.message)
        await seat.close()
    own = await own_text(verifier, QUESTION, MOST)
    assert answer.state == "checked" and "".join(piece.text for piece in pieces) == own == answer.sent.text
    assert {piece.span.source for piece in pieces} == {"verified"} and all(stored.provenance)


@asynccontextmanager
async def about_to_break(
    verifier: VerifierProcess, drafter: Drafter, local: Local, folder: Path
) -> AsyncIterator[tuple[FaultProxy, Seat]]:
    """A line that breaks in the middle of the first answer, and a seat with a model on this device."""
    settings = msgspec.structs.replace(SETTINGS, offline="local", mode="hosted")
    async with local.listening() as port, FaultProxy([verifier.port]) as proxy:
        here = AddressSource(f"http://127.0.0.1:{port}/v1")
        here.name, here.kind = "small one", "openai"
        source = patient(proxy)
        options = Options(Drafters(drafter), source, settings, seen=LastSeen(), stand_in=lambda _: here, texts=folder)
        seat = Seat(options)
        seat.assistant.start()
        await until(lambda: isinstance(getattr(seat.assistant.backend.routing.shown, "verifier", None), Verifier))
        proxy.at(0, after(STREAM_BYTES, lasting(refused)))
        yield proxy, seat
        await seat.close()


@pytest.mark.parametrize(("agrees", "other"), [(True, False), (True, True), (False, False)])
async def test_a_model_on_this_device_writes_while_the_server_is_away(
    verifier: VerifierProcess, drafter: Drafter, other_pair: Path, tmp_path: Path, agrees: bool, other: bool
) -> None:
    """`other`: the drafter has another tokenizer than the server."""
    drafter = Drafter.load(other_pair / "drafter") if other else drafter
    answer, own = begun(stream=True), await own_text(verifier, QUESTION, MOST)
    local, cut = Local(), 0

    def written() -> Iterator[str]:
        nonlocal cut
        cut = len(local.begun)
        yield own[cut : cut + 9] if agrees else "§ by another"

    local.scripts = [Script(written(), hold=True), Script([" to its end"])]
    async with about_to_break(verifier, drafter, local, tmp_path) as (proxy, seat):
        text, writer = "", Writer(answer, seat)
        async with aclosing(writer.pieces()) as pieces:
            async for piece in pieces:
                text += piece.text
                if piece.span.source == "drafted":
                    await proxy.heal()
    assert text == answer.sent.text and writer.failed is None
    if agrees:
        assert text == own and answer.sent.source == "verified" and answer.sent.checked == len(own)
        return
    assert text.startswith(f"{own[:cut]}§ by another") and len(text) > cut + 20, "it is brought to its end here"
    spans = [(span.source, span.model, text[span.start : span.end]) for span in answer.sent.spans]
    assert spans[0] == ("verified", "", own[: answer.sent.checked]) and answer.sent.checked >= cut
    assert {source for source, _, _ in spans[1:]} <= {"drafted", "local"}


async def test_an_end_that_only_a_model_on_this_device_said_waits_for_the_check(
    verifier: VerifierProcess, drafter: Drafter, tmp_path: Path
) -> None:
    answer, local = begun(), Local([Script([])])
    async with (
        about_to_break(verifier, drafter, local, tmp_path) as (_, seat),
        aclosing(Writer(answer, seat).pieces()) as pieces,
    ):
        text = "".join([piece.text async for piece in pieces])
    assert text == local.begun == answer.sent.text
    assert (answer.report.source, answer.report.state, answer.report.checked) == ("drafted", "waiting", len(text))


# ---- what a client has been sent -------------------------------------------------------------------------------------


WORDS = st.text("ab ", max_size=12)
STEPS = st.lists(st.tuples(st.sampled_from(["model", "drafter", "away"]), WORDS, st.integers(1, 6)), max_size=12)


@given(WORDS.filter(bool), STEPS, st.lists(st.text("ab ", min_size=1, max_size=3), max_size=2))
def test_any_course_of_an_answer(own: str, steps: list[tuple[str, str, int]], stops: list[str]) -> None:
    """`own`: the model's answer. Each step is some of it, words of the drafter that are sent, or words that are not."""
    sent, verified, draft = SentText(stops), 0, ""
    pieces: list[Piece] = []
    for step, words, count in [*steps, ("end", "", 0)]:
        if step == "model":
            said = own[verified : verified + count]
            verified += len(said)
            draft = draft[len(said) :] if draft.startswith(said) else ""
        elif step != "end":
            draft += words
        solid, alone = own[:verified], draft if step in ("drafter", "end") else ""
        pieces += sent.take(solid, alone, complete=step == "end")
        assert sent.text == "".join(piece.text for piece in pieces), "it only grows"
        assert [piece.span for piece in pieces] == spans(pieces)
        assert not any(stop in sent.text for stop in stops)
        for piece in pieces:
            if piece.span.source == "verified":
                assert own.startswith(piece.text, piece.span.start), "verified is the model's own"
        assert sent.text[: sent.checked] == own[: sent.checked]
        if sent.stopped or sent.parted:
            break
    agrees = sent.cut(own[:verified] + draft)
    assert sent.parted == (sent.text != agrees) or sent.stopped
    told = sent.spans
    assert [span.start for span in told] == [0, *(span.end for span in told)][: len(told)]
    assert (told[-1].end if told else 0) == len(sent.text)
    assert all(span.end <= sent.checked or span.source == "drafted" for span in told)


def spans(pieces: list[Piece]) -> list[Span]:
    """The spans that such pieces must have."""
    found, at = [], 0
    for piece in pieces:
        found.append(Span(at, at + len(piece.text), piece.span.source))
        at += len(piece.text)
    return found
