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

QUESTION = "how do I unpack a tar archive?"
MOST = 120
SETTINGS = Settings(mode="hosted", offline="local", max_tokens=MOST, temperature=0.0)
WRONG = " never said: naïve 🦀"


@dataclass
class Local(ChatServer):
    """A model on this device that continues `whole`, the target's own answer, for so many characters, then errs."""

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


@pytest.fixture
async def proxy(waiting: VerifierProcess) -> AsyncIterator[FaultProxy]:
    async with FaultProxy([waiting.port]) as proxy:
        yield proxy


@pytest.fixture
async def going_on(verifier: VerifierProcess) -> AsyncIterator[FaultProxy]:
    """A line to a server that goes on while its client is away."""
    async with FaultProxy([verifier.port]) as proxy:
        yield proxy


async def until_written(verifier: VerifierProcess) -> None:
    """Wait until the server has written all that it writes for clients who are away."""
    async with httpx.AsyncClient(base_url=verifier.url, trust_env=False) as client:
        await until_counter(client, "running_sessions", 0)


def noting(proxy: FaultProxy, fault: Fault) -> list[bytes]:
    """The first lines of all requests from here on. The first request for tokens meets the fault."""
    lines: list[bytes] = []

    async def note(exchange: Exchange) -> None:
        lines.append(exchange.head.split(b" HTTP/")[0])
        await (fault(exchange) if lines == [b"POST /v1/streams"] else exchange.relay())

    proxy.line = note
    return lines


async def broken(opened: Assistant, proxy: FaultProxy, watch: Watch = lambda heard: None) -> Heard:
    """An answer whose line breaks in the middle."""
    proxy.at(0, after(STREAM_BYTES, lasting(refused)))
    return await ask(opened, QUESTION, watch=watch)


def wrong(heard: Heard) -> bool:
    """Whether a model on this device has just written what the target never says."""
    return isinstance(heard.last, Drafted) and "🦀" in heard.text


def taken_over(heard: Heard) -> bool:
    """Whether such a model has just been asked to continue."""
    return isinstance(heard.last, ModeChanged) and heard.last.model == "small one"


def stored(opened: Assistant, heard: Heard) -> Message:
    return opened.store.messages.get(heard.message)


@asynccontextmanager
async def with_local(
    drafter: Drafter, database: Path, proxy: FaultProxy, local: Local, settings: Settings = SETTINGS
) -> AsyncIterator[Assistant]:
    """An assistant that has met the server behind `proxy`, with a model on this device."""
    async with standing_in(drafter, database, proxy.port, local, settings, path="") as opened:
        await until_connected(opened)
        yield opened


@pytest.mark.parametrize("right", [0, 40])
async def test_the_line_returns_while_the_local_model_writes(
    drafter: Drafter, database: Path, proxy: FaultProxy, own: list[int], right: int
) -> None:
    text = drafter.text.decode(own)
    local = Local(whole=text, right=right)
    async with with_local(drafter, database, proxy, local) as opened:
        heard = await broken(opened, proxy, lambda heard: wrong(heard) and proxy.heal())
        assert list(heard.done.token_ids) == own and all(heard.done.provenance), "the target's own answer"
        assert violations(heard.events, stored(opened, heard), own, drafter.text) == []
        assert heard.done.stretches == () and heard.done.model == "target", "nothing is left that nobody checked"
        assert 0 < len(local.begun) < len(text) and text.startswith(local.begun)
        judged = heard.judged
        assert judged is not None and judged.message == heard.message and not judged.dropped
        (withdrawn,) = heard.withdrawn
        assert withdrawn.text.endswith(WRONG.strip())
        assert judged.kept >= len(drafter.text.encode(text[len(local.begun) :][:right])) - 2
        assert judged.of > judged.kept
        (turn,) = Turn.of_thread(opened.store.branches.thread(stored(opened, heard).conversation_id))
        assert turn.judged == judged and not turn.verifiable and turn.unchecked == ()
        assert turn.withdrawn == (withdrawn,) and turn.struck == ()
        turn.withdrawn_shown = True
        assert [struck.text for struck in turn.struck] == [withdrawn.text]
        assert f"the model kept {judged.kept} of {judged.of} drafted tokens" in turn.note


async def test_what_was_not_kept_stays_readable_in_an_answer_that_is_stopped(
    drafter: Drafter, database: Path, proxy: FaultProxy, own: list[int]
) -> None:
    local = Local(whole=drafter.text.decode(own), right=0)
    async with with_local(drafter, database, proxy, local) as opened:

        async def watch(heard: Heard) -> None:
            if wrong(heard):
                await proxy.heal()
            if isinstance(heard.last, Retracted) and "🦀" not in heard.text:
                opened.stop()

        heard = await broken(opened, proxy, watch)
        assert heard.done.stopped and all(heard.done.provenance)
        (withdrawn,) = heard.withdrawn
        assert withdrawn.text.endswith(WRONG.strip())
        (turn,) = Turn.of_thread(opened.store.branches.thread(stored(opened, heard).conversation_id))
        assert heard.judged is not None and turn.judged == heard.judged and turn.withdrawn == (withdrawn,)


async def test_what_was_not_kept_stays_readable_where_a_later_part_is_not_checked(
    drafter: Drafter, database: Path, proxy: FaultProxy, own: list[int]
) -> None:
    text = drafter.text.decode(own)
    local = Local(whole=text, right=12)
    async with with_local(drafter, database, proxy, local) as opened:
        read = list[str]()

        async def watch(heard: Heard) -> None:
            if isinstance(heard.last, Drafted) and heard.text.endswith("🦀"):
                read.append(local.begun)
                if len(read) < 3:
                    proxy.at(1, lasting(refused))
                    await proxy.heal()
                else:
                    opened.stop()

        heard = await broken(opened, proxy, watch)
        assert not all(heard.done.provenance) and heard.done.stretches[-1].here
        first, second = heard.withdrawn
        assert first.at < second.at and first.text.endswith(WRONG.strip()) and second.text.endswith(WRONG.strip())
        assert [text.startswith(heard.text[: one.at]) for one in (first, second)] == [True, True]
        assert heard.judged is None, "not all of it is checked"
        conversation = stored(opened, heard).conversation_id
        (turn,) = Turn.of_thread(opened.store.branches.thread(conversation))
        assert turn.withdrawn == (first, second) and turn.verifiable and "not checked" in turn.note
        await proxy.heal()
        await until_mode(opened, "hosted")
        checked = await hear(opened.verify(heard.message))
        assert all(checked.done.provenance)
        assert checked.withdrawn == (first, second), "they stay where they stood"
        (turn,) = Turn.of_thread(opened.store.branches.thread(conversation), opened.store.messages.of(conversation))
        places = [struck.at for struck in turn.dropped]
        assert places[:2] == [first.at, second.at] and len(places) == 3 and places == sorted(places)


async def test_the_line_returns_before_its_first_word(
    drafter: Drafter, database: Path, proxy: FaultProxy, own: list[int]
) -> None:
    async with with_local(drafter, database, proxy, Local([Script([], hold=True)])) as opened:
        heard = await broken(opened, proxy, lambda heard: taken_over(heard) and proxy.heal())
        assert list(heard.done.token_ids) == own and all(heard.done.provenance)
        assert heard.done.stretches == () and heard.judged is None


async def test_the_line_returns_while_the_local_model_loads(
    stands_in: Connect, proxy: FaultProxy, own: list[int]
) -> None:
    async def loads(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with (
        listening(loads) as port,
        stands_in(proxy.port, Here(f"http://127.0.0.1:{port}/v1"), SETTINGS, path="") as opened,
    ):
        await until_connected(opened)
        heard = await broken(opened, proxy, lambda heard: taken_over(heard) and proxy.heal())
        assert list(heard.done.token_ids) == own and all(heard.done.provenance)


async def test_what_it_finished_alone_is_checked_later(
    drafter: Drafter, database: Path, proxy: FaultProxy, own: list[int]
) -> None:
    text = drafter.text.decode(own)
    local = Local(whole=text, right=30, ends=True)
    async with with_local(drafter, database, proxy, local) as opened:
        alone = await broken(opened, proxy)
        begun = local.begun
        assert alone.text == text[: len(begun) + 30] + WRONG
        assert alone.done.stretches == (Stretch(0, "target"), Stretch(len(begun), "small one", here=True))
        drafted = stored(opened, alone)
        assert drafter.text.decode(drafted.tokens) == alone.text
        assert drafter.text.decode([one for one, known in zip(drafted.tokens, drafted.provenance) if known]) == begun
        (turn,) = Turn.of_thread(opened.store.branches.thread(drafted.conversation_id))
        assert turn.verifiable and turn.note == "by small one on this device, not checked"
        await proxy.heal()
        await until_mode(opened, "hosted")
        checked = await hear(opened.verify(alone.message))
        assert list(checked.done.token_ids) == own and all(checked.done.provenance) and not checked.done.stretches
        judged = checked.judged
        assert judged is not None and judged.message == alone.message and judged.dropped.endswith(WRONG.strip())
        assert 0 < judged.kept < judged.of
        assert stored(opened, alone) == drafted, "a message never changes"
        assert len(local.answers) == 1, "only the target checks"


@pytest.mark.parametrize("crashes", [False, True])
async def test_an_answer_that_the_local_model_cannot_go_on_with_waits_for_the_line(
    drafter: Drafter, database: Path, proxy: FaultProxy, own: list[int], crashes: bool
) -> None:
    local = Local([Script([WRONG], cut=True)] * (MOST_RESTARTS + 1) if crashes else [])
    local.refuses = "" if crashes else "the request exceeds the available context size"
    async with with_local(drafter, database, proxy, local) as opened:

        async def heal() -> None:
            await until(lambda: len(local.answers) > (MOST_RESTARTS if crashes else 0))
            await proxy.heal()

        healing = asyncio.create_task(heal())
        heard = await broken(opened, proxy)
        await healing
        assert list(heard.done.token_ids) == own and all(heard.done.provenance), heard.failed
        assert heard.done.stretches == () and violations(heard.events, stored(opened, heard), own, drafter.text) == []


async def test_an_end_that_only_the_local_model_said_is_checked_later(
    drafter: Drafter, database: Path, proxy: FaultProxy, own: list[int]
) -> None:
    local = Local([Script([])])
    async with with_local(drafter, database, proxy, local) as opened, working_off(opened) as done:
        proxy.at(0, after(STREAM_BYTES, lasting(refused)))
        conversation = opened.store.conversations.create("waits").id
        opened.outbox.enqueue(conversation, QUESTION)
        await until(lambda: len(done) == 1)
        assert done[0].text == local.begun and done[0].done.reason == "end"
        *said, end = done[0].done.provenance
        assert said and all(said) and not end
        (turn,) = Turn.of_thread(opened.store.branches.thread(conversation))
        assert turn.verifiable and "not checked" in turn.note
        assert [one.kind for one in opened.outbox.queued()] == ["verify"]
        await proxy.heal()
        await until(lambda: len(done) == 2)
        assert list(done[1].done.token_ids) == own and all(done[1].done.provenance)
        assert not done[1].done.stretches and not opened.outbox.queued()


async def test_a_question_that_it_answered_alone_is_checked_later(
    drafter: Drafter, database: Path, proxy: FaultProxy, own: list[int]
) -> None:
    text = drafter.text.decode(own)
    local = Local(whole=text, right=30, ends=True)
    async with with_local(drafter, database, proxy, local) as opened:
        proxy.line = refused
        await proxy.refuse()
        heard = await ask(opened, QUESTION)
        assert heard.done and heard.text == text[:30] + WRONG
        assert heard.done.stretches == (Stretch(0, "small one", here=True),) and not any(heard.done.provenance)
        await proxy.heal()
        await until_mode(opened, "hosted")
        checked = await hear(opened.verify(heard.message))
        assert list(checked.done.token_ids) == own


async def test_it_flaps(drafter: Drafter, database: Path, proxy: FaultProxy, own: list[int]) -> None:
    """The line returns and breaks again three times while the local model writes."""
    text = drafter.text.decode(own)
    local = Local(whole=text, right=12)
    flaps = [lasting(refused)] * 3
    async with with_local(drafter, database, proxy, local) as opened:

        async def watch(heard: Heard) -> None:
            if isinstance(heard.last, Drafted) and heard.text.endswith("🦀"):
                if flaps:
                    proxy.at(1, flaps.pop())
                await proxy.heal()

        heard = await broken(opened, proxy, watch)
        assert list(heard.done.token_ids) == own and all(heard.done.provenance) and not flaps
        assert violations(heard.events, stored(opened, heard), own, drafter.text) == []
        assert len(local.answers) == 4 and heard.done.stretches == ()
        assert len(heard.of(Judged)) == 1
        assert sum(one.text.count("🦀") for one in heard.withdrawn) >= 2


async def test_what_is_stored_meanwhile_names_who_wrote_it(
    drafter: Drafter, database: Path, proxy: FaultProxy, own: list[int]
) -> None:
    local = Local(whole=drafter.text.decode(own), right=30)
    async with with_local(drafter, database, proxy, local) as opened:
        left = list[Message]()  # What a program that is killed then leaves behind.

        def watch(heard: Heard) -> object:
            if isinstance(heard.last, RoundEnded) and heard.text.endswith("🦀"):
                left.append(stored(opened, heard))
            return LEAVE if left else None

        heard = await broken(opened, proxy, watch)
        (half,) = left
        assert half.text == heard.text and not all(half.provenance) and any(half.provenance)
        assert stretches_of(half.stats) == (Stretch(0, "target"), Stretch(len(local.begun), "small one", here=True))


@pytest.mark.parametrize(("right", "temperature"), [(0, 0.0), (40, 0.0), (0, 0.9)])
async def test_what_the_server_wrote_meanwhile_comes_at_once(
    drafter: Drafter, database: Path, verifier: VerifierProcess, going_on: FaultProxy, right: int, temperature: float
) -> None:
    settings = msgspec.structs.replace(SETTINGS, temperature=temperature, seed=7)
    async with VerifierClient(verifier.url) as client:
        sampling, prompt = Sampling(temperature=temperature, seed=7), drafter.text.render([("user", QUESTION)])
        own = await target_alone(client, prompt, sampling, MOST, drafter.text.stop_tokens)
    local = Local(whole=drafter.text.decode(own), right=right)

    async def watch(heard: Heard) -> None:
        if wrong(heard):
            await until_written(verifier)
            await going_on.heal()

    async with with_local(drafter, database, going_on, local, settings) as opened:
        heard = await broken(opened, going_on, watch)
        assert list(heard.done.token_ids) == own and all(heard.done.provenance)
        assert violations(heard.events, stored(opened, heard), own, drafter.text) == []
        assert going_on.asked == 2, "one request when the line is back"
        (judged,) = heard.of(Judged)
        (withdrawn,) = heard.withdrawn
        assert withdrawn.text.endswith(WRONG.strip()) and judged.kept >= right // 8


async def test_a_broken_stream_goes_on_without_anybody_standing_in(
    drafter: Drafter, database: Path, going_on: FaultProxy, own: list[int]
) -> None:
    settings = Settings(mode="hosted", max_tokens=MOST, temperature=0.0)
    async with assistant(drafter, database, going_on.url, settings=settings) as opened:
        await until_connected(opened)
        lines = noting(going_on, cut_after(STREAM_BYTES))
        heard = await ask(opened, QUESTION)
        assert list(heard.done.token_ids) == own
        assert violations(heard.events, stored(opened, heard), own, drafter.text) == []
        assert lines[0] == b"POST /v1/streams" and lines[1].startswith(b"GET /v1/streams/")
        count = len(lines)
        further = await ask(opened, "and now?", stored(opened, heard).conversation_id)
        assert further.done and not [line for line in lines[count:] if line.startswith(b"GET /v1/streams/")]


async def test_a_stream_is_asked_for_whose_line_broke_before_its_first_words(
    drafter: Drafter, going_on: FaultProxy, own: list[int]
) -> None:
    async def lost(exchange: Exchange) -> None:
        await exchange.ask()
        await refused(exchange)

    prompt = drafter.text.render([("user", QUESTION)])
    async with VerifierClient(going_on.url) as client:
        session = client.session()
        noting(going_on, lost)
        with pytest.raises(LinkDown):
            await session.stream(
                prompt,
                Sampling(),
                most=MOST,
                memory_from=None,
                deadline=PATIENCE_SECONDS,
                silence=PATIENCE_SECONDS,
                resumable=True,
            )
        await going_on.heal()
        assert session.left(Sampling())
        found = await session.written(prompt, most=MOST, deadline=PATIENCE_SECONDS)
        assert found is not None and list(unpack_tokens(found.tokens)) == own


async def test_a_person_who_stops_tells_the_server(drafter: Drafter, database: Path, going_on: FaultProxy) -> None:
    settings = Settings(mode="hosted", max_tokens=2000, temperature=0.0)
    async with assistant(drafter, database, going_on.url, settings=settings) as opened:
        await until_connected(opened)
        lines = noting(going_on, after(STREAM_BYTES, silence))
        heard = await ask(opened, QUESTION, watch=lambda heard: heard.text and opened.stop())
        assert heard.done.stopped
    assert [line for line in lines if line.startswith(b"DELETE /v1/streams/")]


async def test_a_server_that_goes_on_for_nobody_is_not_asked(
    drafter: Drafter, database: Path, proxy: FaultProxy, own: list[int]
) -> None:
    settings = Settings(mode="hosted", max_tokens=MOST, temperature=0.0)
    async with assistant(drafter, database, proxy.url, settings=settings) as opened:
        await until_connected(opened)
        lines = noting(proxy, cut_after(STREAM_BYTES))
        heard = await ask(opened, QUESTION)
        assert list(heard.done.token_ids) == own
    assert lines.count(b"POST /v1/streams") > 1 and not [line for line in lines if b"/v1/streams/" in line]


async def test_a_server_that_checks_no_drafts_is_asked_again_only_on_request(stands_in: Connect) -> None:
    server = ChatServer([Script(["Use tar", " to"], cut=True), Script(["Use tar -x"])], leaves=True)
    local = Local(whole="Use tar to unpack it", right=30, ends=True)
    async with stands_in(server, local, Settings(offline="local")) as opened:
        await until_connected(opened)
        heard = await ask(opened, QUESTION)
        assert heard.text == f"Use tar to unpack it{WRONG}" and heard.done.token_ids == ()
        (turn,) = Turn.of_thread(opened.store.branches.thread(stored(opened, heard).conversation_id))
        assert turn.verifiable and turn.note == "by small one on this device, not checked"
        server.away = False
        await until_connected(opened)
        assert len(server.asked) == 1, "it may cost money"
        again = await hear(opened.verify(heard.message))
        assert again.text == "Use tar -x" and again.done.stretches == ()
        (judged,) = again.of(Judged)
        assert judged.again is not None and judged.again.predicted and judged.message == heard.message
        assert (judged.kept, judged.of) == (2, len(heard.text.split()))
        assert server.asked[1]["prediction"] == {"type": "content", "content": heard.text}
        assert server.asked[1]["messages"][-1]["role"] == "user", "the question, and no beginning of an answer"
        branches = opened.store.messages.of(stored(opened, heard).conversation_id)
        (turn,) = Turn.of_thread(opened.store.branches.thread(stored(opened, heard).conversation_id), branches)
        assert str(judged) in turn.note and not turn.verifiable and turn.unchecked == ()


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
