"""A server checks what a model on this device wrote, whatever its tokenizer: the device fetches the server's."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
from collections import namedtuple
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import msgspec
import pytest

from app.config import Settings
from app.events import Drafted, Judged, Retracted, RoundEnded, Verified
from app.remotes.peer import Endpoint, Verifier
from app.remotes.server_text import MOST_FILES, MOST_LIES, ServerTexts, server_texts
from app.reply.assistant import Assistant
from drafter.runtime import Drafter
from models.config import TOKENIZER
from models.text.chat_text import ChatText
from models.text.text_side import read_text_side
from remote import VerifierClient
from remote.delivery import tokenizer_files
from remote.protocol import Sampling
from tests.app.reply.conftest import Connect
from tests.app.reply.test_back_online import MOST, QUESTION, SETTINGS, WRONG, Local, stored, taken_over, wrong
from tests.app.reply.test_stand_in import rest_of
from tests.support.conversing import Heard, Here, ask, connection, hear, standing_in, until, until_connected, until_mode
from tests.support.fault_proxy import Exchange, Fault, FaultProxy
from tests.support.faults import after, lasting, refused, until_set
from tests.support.nothing_lost import target_alone, violations
from tests.support.patience import PATIENCE_SECONDS
from tests.support.serving import VerifierProcess

ENDINGS = (".json", ".tried", ".part")
STREAM_BYTES = 900
"""A place in a stream without memory: its first tokens have passed, and most have not."""


@pytest.fixture(scope="module")
def server(tiny_pair: Path) -> Iterator[VerifierProcess]:
    """A target without a drafter, which writes nothing while its client is away."""
    options = ["--no-drafter", "--while-away", "0"]
    with VerifierProcess(tiny_pair, model=tiny_pair / "target", options=options) as running:
        yield running


@pytest.fixture(scope="module")
def drafter(other_pair: Path) -> Drafter:
    """The drafter of this device, which has another tokenizer than the server."""
    return Drafter.load(other_pair / "drafter")


@pytest.fixture(scope="module")
def text(tiny_pair: Path) -> ChatText:
    side = read_text_side(tiny_pair / "target")
    assert side.text is not None
    return side.text


@pytest.fixture(scope="module")
async def own(server: VerifierProcess, text: ChatText) -> list[int]:
    """What the target says by itself."""
    async with VerifierClient(server.url) as client:
        return await target_alone(client, text.render([("user", QUESTION)]), Sampling(), MOST, text.stop_tokens)


@dataclass
class Line:
    """The line to the server. `fault`: what becomes of each request for the tokenizer."""

    proxy: FaultProxy
    fault: Fault | None = None
    fetched: list[bytes] = field(default_factory=list)
    """The requests for the tokenizer."""
    strikes: Fault | None = None
    """What becomes of the next request for tokens."""

    def __post_init__(self) -> None:
        self.proxy.line = self.carry

    async def carry(self, exchange: Exchange) -> None:
        fault = None
        if b"/v1/tokenizers/" in exchange.head:
            self.fetched.append(exchange.head.split(b" ")[1])
            fault = self.fault
        elif exchange.asks:
            fault, self.strikes = self.strikes, None
        await (exchange.relay() if fault is None else fault(exchange))

    async def heal(self) -> None:
        await self.proxy.heal()
        self.proxy.line = self.carry


@pytest.fixture
async def line(server: VerifierProcess) -> AsyncIterator[Line]:
    async with FaultProxy([server.port]) as proxy:
        yield Line(proxy)


@dataclass
class Device:
    """A device with a drafter and a model of other tokenizers than the server's."""

    drafter: Drafter
    folder: Path
    line: Line

    @asynccontextmanager
    async def with_local(
        self,
        local: Local | Here | None = None,
        settings: Settings = SETTINGS,
        *,
        connects: bool = True,
        checks: bool = False,
    ) -> AsyncIterator[Assistant]:
        """An assistant with this model. `connects`: once it is connected to the server; `checks`: once that checks."""
        database = self.folder / f"{len(list(self.folder.iterdir()))}.db"
        port, texts, here = self.line.proxy.port, self.folder / "tokenizers", local or Local(whole="")
        async with standing_in(self.drafter, database, port, here, settings, path="", texts=texts) as opened:
            if connects:
                await until_connected(opened)
            if checks:
                await until_checked(opened)
            yield opened

    async def meets(self, local: Local | None = None) -> None:
        """Let it meet the server, until that checks."""
        async with self.with_local(local, checks=True):
            pass


@pytest.fixture
def device(drafter: Drafter, tmp_path: Path, line: Line) -> Device:
    return Device(drafter, tmp_path, line)


@dataclass
class Loading(Local):
    """A model on this device that says nothing before it is loaded."""

    loaded: asyncio.Event = field(default_factory=asyncio.Event)

    async def _serve(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self.loaded.wait()
        await super()._serve(number, reader, writer)


async def until_checked(opened: Assistant) -> None:
    await until(lambda: isinstance(connection(opened).verifier, Verifier))


@pytest.fixture(scope="module")
def respelt_server(tiny_pair: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VerifierProcess]:
    """The same target with another tokenizer."""
    model = respelt(tiny_pair, tmp_path_factory.mktemp("respelt"))
    with VerifierProcess(tiny_pair, model=model, options=["--no-drafter"]) as process:
        yield process


async def cut(opened: Assistant, line: Line, *, heals: bool = False) -> Heard:
    """An answer whose line breaks in the middle. `heals`: until the local model has written what is wrong."""
    line.strikes = after(STREAM_BYTES, lasting(refused))
    return await ask(opened, QUESTION, watch=lambda heard: heals and wrong(heard) and line.heal())


async def test_what_another_wrote_is_checked_later(device: Device, line: Line, own: list[int], text: ChatText) -> None:
    local = Local(whole=text.decode(own), right=40)
    async with device.with_local(local, checks=True) as opened:
        heard = await cut(opened, line, heals=True)
        assert list(heard.done.token_ids) == own and all(heard.done.provenance), "the target's own answer"
        assert violations(heard.events, stored(opened, heard), own, text) == []
        assert heard.done.stretches == () and heard.done.model == "target"
        (judged,) = heard.of(Judged)
        (withdrawn,) = heard.withdrawn
        assert withdrawn.text.endswith(WRONG.strip()) and judged.of > judged.kept
        assert judged.kept >= len(text.encode(text.decode(own)[len(local.begun) :][:40])) - 2


def respelt(pair: Path, folder: Path) -> Path:
    """The target of this pair, with other numbers for the words of its tokenizer."""
    model = Path(shutil.copytree(pair / "target", folder / "other"))
    tokenizer = json.loads((model / TOKENIZER).read_bytes())
    words, special = tokenizer["model"]["vocab"], {token["content"] for token in tokenizer["added_tokens"]}
    plain = [word for word in words if word not in special]
    words.update(zip(plain, [words[word] for word in reversed(plain)]))
    (model / TOKENIZER).write_text(json.dumps(tokenizer))
    return model


async def test_a_real_model_with_another_tokenizer_goes_on_and_is_checked(
    device: Device, line: Line, own: list[int], text: ChatText, respelt_server: VerifierProcess
) -> None:
    async with device.with_local(Here(f"{respelt_server.url}/v1"), checks=True) as opened:
        alone = await cut(opened, line)
        begun = next(one.at for one in alone.done.stretches if one.here)
        rest = await rest_of(respelt_server, alone.text[:begun], MOST)
        assert text.decode(own).startswith(alone.text[:begun]) and alone.text[begun:] in rest
        assert text.decode(stored(opened, alone).tokens) == alone.text
        await line.heal()
        await until_mode(opened, "hosted")
        checked = await hear(opened.verify(alone.message))
        assert list(checked.done.token_ids) == own and all(checked.done.provenance) and not checked.done.stretches


@pytest.mark.parametrize("kind", [Local, Loading])
async def test_what_it_began_before_the_server_was_met_is_not_sent_there_but_checked_later(
    device: Device, line: Line, own: list[int], text: ChatText, kind: type[Local]
) -> None:
    """Also if the server is met before the model on this device has said a word."""
    await device.meets()
    line.proxy.line, local = refused, kind(whole=text.decode(own), right=30, ends=True)
    async with device.with_local(local, connects=False) as opened:
        await until_mode(opened, "offline")

        async def back() -> None:
            await line.heal()
            await until_checked(opened)

        async def watch(heard: Heard) -> None:
            if isinstance(local, Loading) and taken_over(heard) and not local.loaded.is_set():
                await back()
                local.loaded.set()

        heard = await ask(opened, QUESTION, watch=watch)
        assert heard.done and heard.text == text.decode(own)[:30] + WRONG, heard.failed
        if kind is Local:
            await back()
        checked = await hear(opened.verify(heard.message))
        assert list(checked.done.token_ids) == own, checked.failed
        assert len(line.fetched) == 1, "it was here already"


async def test_a_question_that_is_asked_at_once_is_asked_in_the_servers_tokens(device: Device, own: list[int]) -> None:
    await device.meets()
    async with device.with_local(connects=False) as opened:
        heard = await ask(opened, QUESTION)
        assert list(heard.done.token_ids) == own, heard.failed


async def test_its_drafter_drafts_nothing_and_starts_nothing(device: Device, own: list[int], text: ChatText) -> None:
    async with device.with_local(settings=msgspec.structs.replace(SETTINGS, mode="auto")) as opened:
        plain = await ask(opened, QUESTION)
        await until_checked(opened)
        routing = opened.backend.routing
        heard = await ask(opened, QUESTION)
        assert heard.done and plain.text == heard.text == text.decode(own)
        assert list(heard.done.token_ids) == own and set(heard.modes) == {"hosted"}
        knows = connection(opened).server.drafter
        assert knows is not None and not (knows.drafts or knows.is_model or knows.runs or knows.correctable)
        assert routing.status().mode == "hosted" and routing.status().checks
        assert all(event.report is None or not event.report.nodes for event in heard.of(RoundEnded))


async def test_it_is_fetched_only_where_a_model_on_this_device_writes(device: Device, line: Line) -> None:
    for settings in ({"offline": "queue"}, {"mode": "edge"}):
        async with device.with_local(settings=SETTINGS.replaced(settings, "")) as opened:
            assert isinstance(connection(opened).verifier, Endpoint) and connection(opened).server.unread is None
    async with device.with_local(settings=SETTINGS.replaced({"offline": "queue"}, "")) as opened:
        await opened.stand_by("small one")
        await until_checked(opened)
    assert len(line.fetched) == 1


async def test_nothing_changes_in_mid_answer(device: Device, line: Line, own: list[int], text: ChatText) -> None:
    line.fault = until_set(begun := asyncio.Event())
    async with device.with_local() as opened:
        plain = connection(opened).verifier

        async def watch(heard: Heard) -> None:
            if isinstance(heard.last, Verified) and not begun.is_set():
                begun.set()
                await until(lambda: any((device.folder / "tokenizers").glob("*.json")))
            assert connection(opened).verifier is plain

        heard = await ask(opened, QUESTION, watch=watch)
        assert heard.done and heard.text == text.decode(own)
        await until_checked(opened)
        assert {path.suffix for path in (device.folder / "tokenizers").iterdir()} == {"", ".json", ".tried"}


async def garbled(exchange: Exchange) -> None:
    head, _, body = (await exchange.ask()).partition(b"\r\n\r\n")
    await exchange.tell(head + b"\r\n\r\n" + bytes(len(body)))


async def test_a_server_that_lies_is_asked_once_and_answers_in_plain_text(
    device: Device, line: Line, own: list[int], text: ChatText, caplog: pytest.LogCaptureFixture
) -> None:
    line.fault = garbled
    caplog.set_level(logging.INFO, "outrider.tokenizer")
    async with device.with_local() as opened:
        await until(lambda: any(record.levelno == logging.WARNING for record in caplog.records))
        assert (await ask(opened, QUESTION)).text == text.decode(own)
        connection(opened).connect_again("a test")
        await until_connected(opened)
        assert isinstance(connection(opened).verifier, Endpoint) and len(line.fetched) == 1
    (said,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert "answers in plain text: the tokenizer that" in said and "it has another checksum" in said


async def test_another_server_is_asked_although_some_have_lied_of_which_the_last_ones_are_known(
    device: Device, line: Line, server: VerifierProcess
) -> None:
    line.fault, texts = garbled, ServerTexts(device.folder / "tokenizers")
    async with VerifierClient(f"http://127.0.0.1:{line.proxy.port}") as client:
        card = await client.card(PATIENCE_SECONDS)
        cards = [*(msgspec.structs.replace(card, chat_template=f"{number}") for number in range(MOST_LIES)), card]
        for one in cards:
            assert texts.offered(client, one) and texts.known(one) is None
            assert await texts.fetch(client, one) is None
        assert [texts.offered(client, one) for one in cards] == [True, *[False] * MOST_LIES]
    async with VerifierClient(server.url) as client:
        assert texts.offered(client, card) and await texts.fetch(client, card) is not None


async def test_a_full_disk_is_tried_again(
    device: Device, server: VerifierProcess, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    texts = ServerTexts(device.folder / "tokenizers")
    async with VerifierClient(server.url) as client:
        card = await client.card(PATIENCE_SECONDS)
        with monkeypatch.context() as full:
            full.setattr("shutil.disk_usage", lambda place: namedtuple("usage", "free")(0))
            assert await texts.fetch(client, card) is None and "the disk has no room" in caplog.text
        assert texts.offered(client, card) and await texts.fetch(client, card) is not None


async def test_only_those_used_last_are_kept_on_disk(device: Device, server: VerifierProcess) -> None:
    shelf = device.folder / "tokenizers"
    (shelf / "model-0a").mkdir(parents=True)
    for number, ending in product(range(40), ENDINGS):
        (shelf / f"{number}{ending}").touch()
        os.utime(shelf / f"{number}{ending}", (number, number))
    async with VerifierClient(server.url) as client:
        card = await client.card(PATIENCE_SECONDS)
        assert await ServerTexts(shelf).fetch(client, card) is not None
        own = {*tokenizer_files(card, shelf)}
        newest = {f"{number}{ending}" for number, ending in product(range(41 - MOST_FILES, 40), ENDINGS)}
        assert {file.name for file in {*shelf.iterdir()} - own} == newest | {"lock", "model-0a"}
        for file in own:
            os.utime(file, (0, 0))
        assert ServerTexts(shelf).known(card) is not None and all(file.stat().st_mtime for file in own), "it is used"


async def test_a_damaged_one_is_fetched_again(device: Device, line: Line) -> None:
    await device.meets()
    (path,) = (device.folder / "tokenizers").glob("*.json")
    path.write_bytes(path.read_bytes().replace(b"a", b"b", 1))
    server_texts.cache_clear()  # As in the next run of the program.
    await device.meets()
    assert len(line.fetched) == 2


async def test_a_conversation_is_as_long_as_the_server_reads(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("backend", "routing"):
        monkeypatch.setattr(f"app.reply.{module}.CONTEXT_TOKENS", 64)
    async with device.with_local(checks=True) as opened:
        heard = await ask(opened, QUESTION * 20)
        assert heard.done.stats.read > 64, heard.failed


async def test_an_answer_goes_on_in_the_tokens_that_its_server_turns_out_to_read(
    stands_in: Connect, respelt_server: VerifierProcess, tmp_path: Path
) -> None:
    texts, here, port = tmp_path / "tokenizers", Here("http://127.0.0.1:9/v1"), respelt_server.port
    async with stands_in(port, here, SETTINGS, path="", texts=texts) as opened:
        await until_checked(opened)
        whole = await ask(opened, QUESTION)
        asking = opened.reply(opened.store.conversations.create("").id, QUESTION)
        heard = await hear(asking, lambda heard: len(heard.text) > 20 and opened.stop())
    async with stands_in(port, here, SETTINGS, path="", texts=texts) as opened:
        assert connection(opened).warming
        rest = await hear(opened.resume(heard.message))
    assert rest.done and whole.done, rest.failed
    assert not rest.of(Drafted | Retracted), "it is read as it was"
    assert rest.done.token_ids[:MOST] == whole.done.token_ids and all(rest.done.provenance)
