"""What a model on this device wrote while the server was away is checked when the line is back, and nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from app.config import Settings
from app.events import Drafted, Judged, ModeChanged, Retracted, RoundEnded, Stretch, stretches_of
from app.remotes.source import AddressSource
from app.reply.assistant import Assistant
from app.reply.reply import MOST_RESTARTS
from app.tui.turn import Turn
from drafter.runtime import Drafter
from remote import LinkDown, VerifierClient
from remote.protocol import Sampling, unpack_tokens
from storage import Message
from tests.app.reply.conftest import Connect
from tests.remote.toy_verifier import listening
from tests.remote.verifier.test_http import until as until_counter
from tests.support.chat_server import ChatServer, Script
from tests.support.conversing import (
    LEAVE,
    Heard,
    Here,
    Watch,
    ask,
    assistant,
    hear,
    standing_in,
    until,
    until_connected,
    until_mode,
    working_off,
)
from tests.support.fault_proxy import Exchange, Fault, FaultProxy
from tests.support.faults import STREAM_BYTES, after, cut_after, lasting, refused, silence
from tests.support.nothing_lost import target_alone, violations
from tests.support.patience import PATIENCE_SECONDS
from tests.support.serving import VerifierProcess

pytestmark = pytest.mark.faults

QUESTION = "how do I unpack a tar archive?"
MOST = 120
SETTINGS = Settings(mode="hosted", offline="local", max_tokens=MOST, temperature=0.0)
WRONG = " never said: naïve 🦀"


@dataclass
class Local(ChatServer):
    """A model on this device that continues `whole`, the target's own answer, for this many characters, then errs."""

    scripts: Sequence[Script] = ()
    whole: str = ""
    right: int = 0
    ends: bool = False
    """Whether it ends its answer; else it is still writing."""

    def __post_init__(self) -> None:
        self.owner = "outrider"
        self.scripts = self.scripts or [Script(self._pieces(), hold=not self.ends) for _ in range(9)]

    @property
    def answers(self) -> list[dict[str, Any]]:
        """What it was asked to write, besides reading along."""
        return [one for one in self.asked if one.get("max_tokens") != 1]

    @property
    def begun(self) -> str:
        """What it was last asked to continue."""
        last = self.answers[-1]["messages"][-1]
        return str(last["content"]) if last["role"] == "assistant" else ""

    def _pieces(self) -> Iterator[str]:
        said = self.whole[len(self.begun) :][: self.right] + (WRONG if self.begun or self.ends else "")
        yield from (said[at : at + 5] for at in range(0, len(said), 5))

    async def _say(self, script: Script, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        script = self.scripts[min(len(self.answers), len(self.scripts)) - 1]
        reads = self.asked[-1].get("max_tokens") == 1
        await super()._say(Script([]) if reads else script, reader, writer)


@pytest.fixture(scope="module")
async def own(verifier: VerifierProcess, drafter: Drafter) -> list[int]:
    """What the target says by itself."""
    async with VerifierClient(verifier.url) as client:
        prompt = drafter.text.render([("user", QUESTION)])
        return await target_alone(client, prompt, Sampling(), MOST, drafter.text.stop_tokens)


@pytest.fixture(scope="module")
def waiting(tiny_pair: Path) -> Iterator[VerifierProcess]:
    """A server that writes nothing while its client is away."""
    with VerifierProcess(tiny_pair, options=["--while-away", "0"]) as process:
        yield process


def noting(proxy: FaultProxy, fault: Fault) -> list[bytes]:
    """The first lines of all requests from here on. The first request for tokens meets the fault."""
    lines: list[bytes] = []

    async def note(exchange: Exchange) -> None:
        lines.append(exchange.head.split(b" HTTP/")[0])
        await (fault(exchange) if lines == [b"POST /v1/streams"] else exchange.relay())

    proxy.line = note
    return lines


def wrong(heard: Heard) -> bool:
    """Whether a model on this device has just written what the target never says."""
    return isinstance(heard.last, Drafted) and heard.text.endswith("🦀")


def taken_over(heard: Heard) -> bool:
    """Whether such a model has just been asked to continue."""
    return isinstance(heard.last, ModeChanged) and heard.last.model == "small one"


def stored(opened: Assistant, heard: Heard) -> Message:
    return opened.store.messages.get(heard.message)


def turn_of(opened: Assistant, heard: Heard) -> Turn:
    """The turn that a window shows of an answer later."""
    conversation = stored(opened, heard).conversation_id
    (turn,) = Turn.of_thread(opened.store.branches.thread(conversation), opened.store.messages.of(conversation))
    return turn


@dataclass
class Device:
    """A device whose line to its server breaks. `own`: what the target says by itself."""

    drafter: Drafter
    database: Path
    proxy: FaultProxy
    own: list[int]

    @property
    def text(self) -> str:
        return self.drafter.text.decode(self.own)

    @asynccontextmanager
    async def with_local(self, local: Local | Here, settings: Settings = SETTINGS) -> AsyncIterator[Assistant]:
        """An assistant that has met the server, with a model on this device."""
        async with standing_in(self.drafter, self.database, self.proxy.port, local, settings, path="") as opened:
            await until_connected(opened)
            yield opened

    @asynccontextmanager
    async def alone(self, most: int = MOST) -> AsyncIterator[Assistant]:
        """The same without such a model."""
        settings = Settings(mode="hosted", max_tokens=most, temperature=0.0)
        async with assistant(self.drafter, self.database, self.proxy.url, settings=settings) as opened:
            await until_connected(opened)
            yield opened

    async def cut(self, opened: Assistant, watch: Watch = lambda heard: None) -> Heard:
        self.proxy.at(0, after(STREAM_BYTES, lasting(refused)))
        return await ask(opened, QUESTION, watch=watch)

    def is_own(self, opened: Assistant, heard: Heard) -> bool:
        """Whether this is the target's own answer, of which nothing was lost or duplicated, or is left unchecked."""
        assert list(heard.done.token_ids) == self.own and all(heard.done.provenance), heard.failed
        assert violations(heard.events, stored(opened, heard), self.own, self.drafter.text) == []
        return not heard.done.stretches and heard.done.model == "target"


@pytest.fixture
async def device(drafter: Drafter, database: Path, waiting: VerifierProcess, own: list[int]) -> AsyncIterator[Device]:
    async with FaultProxy([waiting.port]) as proxy:
        yield Device(drafter, database, proxy, own)


@pytest.fixture
async def going_on(
    drafter: Drafter, database: Path, verifier: VerifierProcess, own: list[int]
) -> AsyncIterator[Device]:
    """The same, with a server that goes on while its client is away."""
    async with FaultProxy([verifier.port]) as proxy:
        yield Device(drafter, database, proxy, own)


async def test_the_line_returns_while_the_local_model_writes(device: Device) -> None:
    local, text = Local(whole=device.text, right=40), device.text
    async with device.with_local(local) as opened:
        heard = await device.cut(opened, lambda heard: wrong(heard) and device.proxy.heal())
        assert device.is_own(opened, heard)
        assert 0 < len(local.begun) < len(text) and text.startswith(local.begun)
        judged, turn = heard.judged, turn_of(opened, heard)
        assert judged is not None and judged.message == heard.message and not judged.dropped
        (withdrawn,) = heard.withdrawn
        assert withdrawn.text.endswith(WRONG.strip())
        assert judged.of > judged.kept >= len(device.drafter.text.encode(text[len(local.begun) :][:40])) - 2
        assert turn.judged == judged and not turn.verifiable and turn.unchecked == ()
        assert turn.withdrawn == (withdrawn,) and turn.struck == ()
        turn.withdrawn_shown = True
        assert [struck.text for struck in turn.struck] == [withdrawn.text]
        assert f"the model kept {judged.kept} of {judged.of} drafted tokens" in turn.note


async def test_what_was_not_kept_stays_readable_in_an_answer_that_is_stopped(device: Device) -> None:
    async with device.with_local(Local(whole=device.text)) as opened:

        async def watch(heard: Heard) -> None:
            if wrong(heard):
                await device.proxy.heal()
            if isinstance(heard.last, Retracted) and "🦀" not in heard.text:
                opened.stop()

        heard = await device.cut(opened, watch)
        assert heard.done.stopped and all(heard.done.provenance)
        (withdrawn,) = heard.withdrawn
        assert withdrawn.text.endswith(WRONG.strip())
        turn = turn_of(opened, heard)
        assert heard.judged is not None and turn.judged == heard.judged and turn.withdrawn == (withdrawn,)


async def test_what_was_not_kept_stays_readable_where_a_later_part_is_not_checked(device: Device) -> None:
    local, read = Local(whole=device.text, right=12), list[str]()
    async with device.with_local(local) as opened:

        async def watch(heard: Heard) -> None:
            if wrong(heard):
                read.append(local.begun)
                if len(read) < 3:
                    device.proxy.at(1, lasting(refused))
                    await device.proxy.heal()
                else:
                    opened.stop()

        heard = await device.cut(opened, watch)
        assert not all(heard.done.provenance) and heard.done.stretches[-1].here
        first, second = heard.withdrawn
        assert first.at < second.at and first.text.endswith(WRONG.strip()) and second.text.endswith(WRONG.strip())
        assert [device.text.startswith(heard.text[: one.at]) for one in (first, second)] == [True, True]
        assert heard.judged is None, "not all of it is checked"
        turn = turn_of(opened, heard)
        assert turn.withdrawn == (first, second) and turn.verifiable and "not checked" in turn.note
        await device.proxy.heal()
        await until_mode(opened, "hosted")
        checked = await hear(opened.verify(heard.message))
        assert all(checked.done.provenance)
        assert checked.withdrawn == (first, second), "they stay where they stood"
        places = [struck.at for struck in turn_of(opened, checked).dropped]
        assert places[:2] == [first.at, second.at] and len(places) == 3 and places == sorted(places)


@pytest.mark.parametrize("loads", [False, True])
async def test_the_line_returns_before_its_first_word_or_while_it_loads(device: Device, loads: bool) -> None:
    async def load(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with listening(load) as port:
        local = Here(f"http://127.0.0.1:{port}/v1") if loads else Local([Script([], hold=True)])
        async with device.with_local(local) as opened:
            heard = await device.cut(opened, lambda heard: taken_over(heard) and device.proxy.heal())
            assert device.is_own(opened, heard) and heard.judged is None


async def test_what_it_finished_alone_is_checked_later(device: Device) -> None:
    local, text = Local(whole=device.text, right=30, ends=True), device.drafter.text
    async with device.with_local(local) as opened:
        alone = await device.cut(opened)
        begun = local.begun
        assert alone.text == device.text[: len(begun) + 30] + WRONG
        assert alone.done.stretches == (Stretch(0, "target"), Stretch(len(begun), "small one", here=True))
        drafted = stored(opened, alone)
        assert text.decode(drafted.tokens) == alone.text
        assert text.decode([one for one, known in zip(drafted.tokens, drafted.provenance) if known]) == begun
        turn = turn_of(opened, alone)
        assert turn.verifiable and turn.note == "by small one on this device, not checked"
        await device.proxy.heal()
        await until_mode(opened, "hosted")
        checked = await hear(opened.verify(alone.message))
        assert list(checked.done.token_ids) == device.own and not checked.done.stretches
        judged = checked.judged
        assert judged is not None and judged.message == alone.message and judged.dropped.endswith(WRONG.strip())
        assert 0 < judged.kept < judged.of
        assert stored(opened, alone) == drafted, "a message never changes"
        assert len(local.answers) == 1, "only the target checks"


@pytest.mark.parametrize("crashes", [False, True])
async def test_an_answer_that_it_cannot_go_on_with_waits_for_the_line(device: Device, crashes: bool) -> None:
    local = Local([Script([" no"], cut=True)] * (MOST_RESTARTS + 1) if crashes else [])  # Far from the limit of tokens.
    local.refuses = "" if crashes else "the request exceeds the available context size"
    async with device.with_local(local) as opened:

        async def heal() -> None:
            await until(lambda: len(local.answers) > (MOST_RESTARTS if crashes else 0))
            await device.proxy.heal()

        healing = asyncio.create_task(heal())
        heard = await device.cut(opened)
        await healing
        assert device.is_own(opened, heard)


async def test_an_end_that_only_the_local_model_said_is_checked_later(device: Device) -> None:
    local = Local([Script([])])
    async with device.with_local(local) as opened, working_off(opened) as done:
        device.proxy.at(0, after(STREAM_BYTES, lasting(refused)))
        opened.outbox.enqueue(opened.store.conversations.create("waits").id, QUESTION)
        await until(lambda: len(done) == 1)
        assert done[0].text == local.begun and done[0].done.reason == "end"
        *said, end = done[0].done.provenance
        assert said and all(said) and not end
        turn = turn_of(opened, done[0])
        assert turn.verifiable and "not checked" in turn.note
        assert [one.kind for one in opened.outbox.queued()] == ["verify"]
        await device.proxy.heal()
        await until(lambda: len(done) == 2)
        assert list(done[1].done.token_ids) == device.own and all(done[1].done.provenance)
        assert not done[1].done.stretches and not opened.outbox.queued()


async def test_what_is_stored_meanwhile_names_who_wrote_it(device: Device) -> None:
    local, left = Local(whole=device.text, right=30), list[Message]()
    async with device.with_local(local) as opened:

        def watch(heard: Heard) -> object:
            if isinstance(heard.last, RoundEnded) and heard.text.endswith("🦀"):
                left.append(stored(opened, heard))  # What a program that is killed then leaves behind.
            return LEAVE if left else None

        heard = await device.cut(opened, watch)
        (half,) = left
        assert half.text == heard.text and not all(half.provenance) and any(half.provenance)
        assert stretches_of(half.stats) == (Stretch(0, "target"), Stretch(len(local.begun), "small one", here=True))


@pytest.mark.parametrize(("right", "temperature"), [(40, 0.0), (0, 0.9)])
async def test_what_the_server_wrote_meanwhile_comes_at_once(
    going_on: Device, verifier: VerifierProcess, right: int, temperature: float
) -> None:
    settings, text = msgspec.structs.replace(SETTINGS, temperature=temperature, seed=7), going_on.drafter.text
    async with VerifierClient(verifier.url) as client:
        sampling, prompt = Sampling(temperature=temperature, seed=7), text.render([("user", QUESTION)])
        going_on.own = await target_alone(client, prompt, sampling, MOST, text.stop_tokens)

    async def watch(heard: Heard) -> None:
        if wrong(heard):
            async with httpx.AsyncClient(base_url=verifier.url, trust_env=False) as client:
                await until_counter(client, "running_sessions", 0)  # The server has written all of it.
            await going_on.proxy.heal()

    async with going_on.with_local(Local(whole=going_on.text, right=right), settings) as opened:
        heard = await going_on.cut(opened, watch)
        assert going_on.is_own(opened, heard)
        assert going_on.proxy.asked == 2, "one request when the line is back"
        (judged,) = heard.of(Judged)
        (withdrawn,) = heard.withdrawn
        assert withdrawn.text.endswith(WRONG.strip()) and judged.kept >= right // 8


async def test_a_broken_stream_goes_on_without_anybody_standing_in(going_on: Device) -> None:
    async with going_on.alone() as opened:
        lines = noting(going_on.proxy, cut_after(STREAM_BYTES))
        heard = await ask(opened, QUESTION)
        assert going_on.is_own(opened, heard)
        assert lines[0] == b"POST /v1/streams" and lines[1].startswith(b"GET /v1/streams/")
        count = len(lines)
        further = await ask(opened, "and now?", stored(opened, heard).conversation_id)
        assert further.done and not [line for line in lines[count:] if line.startswith(b"GET /v1/streams/")]


async def test_a_stream_is_asked_for_whose_line_broke_before_its_first_words(going_on: Device) -> None:
    async def lost(exchange: Exchange) -> None:
        await exchange.ask()
        await refused(exchange)

    prompt = going_on.drafter.text.render([("user", QUESTION)])
    async with VerifierClient(going_on.proxy.url) as client:
        session = client.session()
        noting(going_on.proxy, lost)
        waits = {"deadline": PATIENCE_SECONDS, "silence": PATIENCE_SECONDS}
        with pytest.raises(LinkDown):
            await session.stream(prompt, Sampling(), most=MOST, memory_from=None, resumable=True, **waits)
        await going_on.proxy.heal()
        assert session.left(Sampling())
        found = await session.written(prompt, most=MOST, deadline=PATIENCE_SECONDS)
        assert found is not None and list(unpack_tokens(found.tokens)) == going_on.own


async def test_a_person_who_stops_tells_the_server(going_on: Device) -> None:
    async with going_on.alone(2000) as opened:
        lines = noting(going_on.proxy, after(STREAM_BYTES, silence))
        heard = await ask(opened, QUESTION, watch=lambda heard: heard.text and opened.stop())
        assert heard.done.stopped
    assert [line for line in lines if line.startswith(b"DELETE /v1/streams/")]


async def test_a_server_that_goes_on_for_nobody_is_not_asked(device: Device) -> None:
    async with device.alone() as opened:
        lines = noting(device.proxy, cut_after(STREAM_BYTES))
        assert device.is_own(opened, await ask(opened, QUESTION))
    assert lines.count(b"POST /v1/streams") > 1 and not [line for line in lines if b"/v1/streams/" in line]


async def test_a_server_that_checks_no_drafts_is_asked_again_only_on_request(stands_in: Connect) -> None:
    server = ChatServer([Script(["Use tar", " to"], cut=True), Script(["Use tar -x"])], leaves=True)
    local = Local(whole="Use tar to unpack it", right=30, ends=True)
    async with stands_in(server, local, Settings(offline="local")) as opened:
        await until_connected(opened)
        heard = await ask(opened, QUESTION)
        assert heard.text == f"Use tar to unpack it{WRONG}" and heard.done.token_ids == ()
        assert turn_of(opened, heard).note == "by small one on this device, not checked"
        server.away = False
        await until_connected(opened)
        assert len(server.asked) == 1, "it may cost money"
        again = await hear(opened.verify(heard.message))
        assert again.text == "Use tar -x" and again.done.stretches == ()
        assert server.asked[1]["prediction"] == {"type": "content", "content": heard.text}
        assert server.asked[1]["messages"][-1]["role"] == "user", "the question, and no beginning of an answer"
        turn = turn_of(opened, heard)
        assert str(again.judged) in turn.note and not turn.verifiable and turn.unchecked == ()


async def test_text_is_checked_by_a_server_that_took_its_place(
    stands_in: Connect, drafter: Drafter, verifier: VerifierProcess, own: list[int]
) -> None:
    """What a model on this device wrote after another server's text goes up as tokens of the model that checks it."""
    text = drafter.text.decode(own)
    server, local = ChatServer([Script([text[:9]], cut=True)], leaves=True), Local(whole=text, right=30, ends=True)
    async with stands_in(server, local, SETTINGS) as opened:
        await until_connected(opened)
        heard = await ask(opened, QUESTION)
        assert heard.done and heard.text == text[: 9 + 30] + WRONG
        opened.use(AddressSource(verifier.url))
        await until_mode(opened, "hosted")
        checked = await hear(opened.verify(heard.message))
        assert list(checked.done.token_ids) == own and not checked.done.stretches


async def test_all_that_the_local_model_wrote_is_stored_when_the_line_returns(device: Device) -> None:
    local, left = Local(scripts=[Script([" x" * 300, "🦀"], hold=True, pause=0.3)]), list[str]()
    async with device.with_local(local, SETTINGS.replaced({"max_tokens": 900}, "test")) as opened:

        def watch(heard: Heard) -> object:
            if wrong(heard):
                return device.proxy.heal()
            if isinstance(heard.last, ModeChanged) and heard.text.endswith("🦀"):
                left.append(stored(opened, heard).text)
            return LEAVE if left else None

        heard = await device.cut(opened, watch)
    assert left == [heard.text]
