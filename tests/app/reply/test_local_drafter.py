"""A model on this device drafts for a server whose model has the same tokenizer, and the text stays the server's."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from app.config import Settings
from app.events import RoundEnded
from app.remotes.drafter_meter import LONGEST_TRIAL
from app.remotes.loopback import LocalModel
from app.remotes.own_server import OwnServer
from app.remotes.peer import Endpoint, Verifier
from app.remotes.source import AddressSource
from app.reply import reply, routing
from app.reply.assistant import Assistant
from app.reply.routing import Options
from drafter.runtime import Drafter
from drafter.shelf import Drafters
from models.config import TOKENIZER
from storage import Store
from tests.support.conversing import Heard, ask, ask_once, connection, until
from tests.support.emulator import Emulator, LinkProfile
from tests.support.made_once import made_once
from tests.support.serving import VerifierProcess
from tests.support.tiny import write_smaller

QUESTION = "how do I unpack a tar archive?"
MOST = 40
EDGE = Settings(mode="edge", offline="local", max_tokens=MOST, temperature=0.0)


@pytest.fixture(scope="module")
def server(tiny_pair: Path) -> Iterator[VerifierProcess]:
    """A target without a drafter."""
    with VerifierProcess(tiny_pair, model=tiny_pair / "target", options=["--no-drafter"]) as running:
        yield running


@pytest.fixture(scope="module")
def other_drafter(other_pair: Path) -> Drafter:
    """The drafter of this device, which has another tokenizer than the server."""
    return Drafter.load(other_pair / "drafter")


@pytest.fixture(scope="module")
def smaller(tiny_pair: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """That target without its last layer, which often says the same."""
    return made_once(tmp_path_factory, "smaller-target", lambda folder: write_smaller(tiny_pair / "target", folder))


class Running(LocalModel):
    """A model whose process runs already, and outlives the assistant."""

    def __init__(self, name: str, path: Path, process: OwnServer) -> None:
        super().__init__(name, path)
        self._process = process

    def _start(self) -> OwnServer:
        return self._process

    async def _end(self) -> None:
        self._server = None
        await super()._end()


@pytest.fixture(scope="module")
def process(smaller: Path) -> Iterator[OwnServer]:
    """The process of the model on this device."""
    process = OwnServer(str(smaller), None)
    yield process
    asyncio.run(process.close())


@dataclass
class Device:
    """A device with a drafter of another tokenizer, and with this model. `process` None: it is started when needed."""

    drafter: Drafter
    folder: Path
    url: str
    model: Path
    process: OwnServer | None

    def source(self, name: str | None = None) -> LocalModel:
        if self.process is None:
            return LocalModel("small one", self.model)
        return Running("small one", self.model, self.process)

    @asynccontextmanager
    async def asking(self, settings: Settings, *, starts: bool = True) -> AsyncIterator[tuple[Assistant, LocalModel]]:
        """An assistant and the model on its device. `starts`: which runs before the first question."""
        with Store.open(self.folder / f"{len(list(self.folder.iterdir()))}.db") as store:
            source, drafters = AddressSource(self.url), Drafters(self.drafter)
            options = Options(drafters, source, settings, stand_in=self.source, modes=("edge",))
            async with Assistant(store, options) as opened:
                stand_in = opened.backend.routing.stand_in(None)
                assert stand_in is not None and isinstance(stand_in.source, LocalModel)
                if starts:
                    stand_in.start()
                    await until(lambda: isinstance(stand_in.verifier, Endpoint))
                yield opened, stand_in.source

    def model_reads(self, tokens: int) -> None:
        self.model, self.process = Path(shutil.copytree(self.model, self.folder / "short")), None
        config = json.loads((self.model / "config.json").read_bytes()) | {"max_position_embeddings": tokens}
        (self.model / "config.json").write_text(json.dumps(config))

    async def plain(self, settings: Settings) -> str:
        with Store.open(self.folder / f"plain-{len(list(self.folder.iterdir()))}.db") as store:
            plain = Options(Drafters(self.drafter), AddressSource(self.url), settings.replaced({"mode": "auto"}, ""))
            return (await ask_once(Assistant(store, plain), QUESTION)).text


@pytest.fixture
def device(
    other_drafter: Drafter, tmp_path: Path, smaller: Path, server: VerifierProcess, process: OwnServer
) -> Device:
    return Device(other_drafter, tmp_path, server.url, smaller, process)


@pytest.fixture
def second(device: Device, drafter: Drafter, verifier: VerifierProcess) -> Device:
    """A device whose own drafter was made for the server's model, so that two drafters fit."""
    device.drafter, device.url = drafter, verifier.url
    return device


def gained(heard: Heard) -> list[int]:
    assert heard.done
    reports = [event.report for event in heard.of(RoundEnded)]
    return [report.gained for report in reports if report is not None]


WAYS: dict[str, dict[str, object]] = {
    "greedy": {},
    "trees of one size, drafted ahead": {"pace": "fixed", "depth": 3, "breadth": 2, "nodes": 8},
    "with a seed": {"temperature": 1.0, "seed": 7},
}


@pytest.mark.parametrize("way", WAYS)
async def test_it_drafts_and_the_text_stays_the_servers(device: Device, way: str) -> None:
    settings = EDGE.replaced(WAYS[way], "")
    expected = await device.plain(settings)
    async with device.asking(settings) as (opened, _):
        heard = await ask(opened, QUESTION)
    assert heard.text == expected and len(expected) > 20
    assert sum(gained(heard)) == MOST and max(gained(heard)) > 2, "it guesses right often"
    assert min(gained(heard)) < max(gained(heard)), "and not always"


async def test_a_sampled_tree_is_drawn_from_it(device: Device) -> None:
    async with device.asking(EDGE.replaced({"tree": "sampled", "temperature": 0.7, "seed": 3}, "")) as (opened, _):
        heard = await ask(opened, QUESTION)
    assert sum(gained(heard)) == MOST and max(gained(heard)) > 2


async def test_it_starts_with_the_first_question_and_a_kill_costs_its_drafts_and_nothing_else(device: Device) -> None:
    expected, device.process = await device.plain(EDGE), None
    async with device.asking(EDGE.replaced({"ahead": False}, ""), starts=False) as (opened, model):
        assert model.process_id is None
        assert (await ask(opened, QUESTION)).text == expected
        running = opened.backend.routing.stand_in(None)
        await until(lambda: running is not None and isinstance(running.verifier, Endpoint))

        def kill(heard: Heard) -> None:
            rounds = len(heard.of(RoundEnded))
            if isinstance(heard.last, RoundEnded) and rounds == 2 and model.process_id is not None:
                os.kill(model.process_id, signal.SIGKILL)

        heard = await ask(opened, QUESTION, watch=kill)
    assert heard.done and heard.text == expected
    reports = [event.report for event in heard.of(RoundEnded)]
    assert any(report is not None and not report.nodes for report in reports[2:]), "while it starts again"


async def test_a_conversation_that_is_too_long_for_it_is_not_read_and_tells_nothing_of_it(device: Device) -> None:
    device.model_reads(8)
    expected = await device.plain(EDGE)
    async with device.asking(EDGE) as (opened, model):
        heard = await ask(opened, QUESTION)
        assert (await ask(opened, QUESTION)).text == heard.text == expected
        assert not connection(opened).speed.modes.learnt.edge.count
        assert model.url is not None and model._server is not None
        headers = {"authorization": f"Bearer {model._server.token}"}
        said = httpx.get(f"{model.url}/metrics", headers=headers).text
    assert 'route="/v1/card"' in said and 'route="/v1/proposals"' not in said
    tries = re.search(r'_count{route="/v1/chat/completions"} (\d+)', said)
    assert tries is None or int(tries[1]) <= 2, "each answer asks at most once whether it can go on with it"
    assert not any(event.report is not None and event.report.levels for event in heard.of(RoundEnded))


async def test_a_model_that_is_chosen_later_drafts_from_then_on(device: Device) -> None:
    async with device.asking(EDGE.replaced({"mode": "auto", "offline": "queue"}, ""), starts=False) as (opened, _):
        expected = (await ask(opened, QUESTION)).text
        await opened.stand_by("small one")
        shown, running = connection(opened), opened.backend.routing.stand_in("small one")
        assert running is not None
        running.start()
        await until(lambda: isinstance(shown.verifier, Verifier) and isinstance(running.verifier, Endpoint))
        heard = await ask(opened, QUESTION)
    assert heard.text == expected and max(gained(heard)) > 2


async def test_nobody_starts_it_where_only_the_server_drafts(device: Device) -> None:
    hosted = EDGE.replaced({"mode": "hosted", "offline": "fail"}, "")
    async with device.asking(hosted, starts=False) as (opened, model):
        assert (await ask(opened, QUESTION)).done
        assert model.process_id is None


async def test_a_model_with_another_tokenizer_drafts_nothing(device: Device) -> None:
    device.model = Path(shutil.copytree(device.model, device.folder / "other"))
    tokenizer = json.loads((device.model / TOKENIZER).read_bytes())
    words = tokenizer["model"]["vocab"]
    words["a"], words["b"] = words["b"], words["a"]
    (device.model / TOKENIZER).write_text(json.dumps(tokenizer))
    async with device.asking(EDGE.replaced({"mode": "auto"}, ""), starts=False) as (opened, _):
        assert (await ask(opened, QUESTION)).done
        shown = connection(opened)
        assert shown.server.drafter is None and isinstance(shown.verifier, Endpoint)


# ---- beside a drafter that was made for the server's model -----------------------------------------------------------


async def drafted_by_model(opened: Assistant, question: str, conversation: str) -> tuple[str, bool, str]:
    """An answer, whether the model on this device drafted it, and the figures behind that."""
    heard = await ask(opened, question, conversation)
    shown = connection(opened)
    assert heard.done and shown.server.drafter is not None
    return heard.text, shown.server.drafter.is_model, shown.why_mode


def try_the_other(opened: Assistant) -> None:
    """Have the other drafter tried in the next answer, as after a few more of them."""
    connection(opened).speed.modes.learnt.uses = LONGEST_TRIAL


async def test_of_two_drafters_the_faster_one_over_this_line_drafts(second: Device, verifier: VerifierProcess) -> None:
    auto = EDGE.replaced({"mode": "auto"}, "")
    async with second.asking(auto, starts=False) as (opened, _):
        conversation = opened.store.conversations.create("").id
        expected = [(await ask(opened, QUESTION, conversation)).text for _ in range(3)]
    line = LinkProfile(name="line", rtt_ms=60, up_mbps=100, down_mbps=100)
    async with Emulator(line, "127.0.0.1", verifier.port) as emulated:
        second.url = emulated.url
        async with second.asking(auto) as (opened, _):
            conversation = opened.store.conversations.create("").id
            answers = [await drafted_by_model(opened, QUESTION, conversation)]
            try_the_other(opened)
            answers.append(await drafted_by_model(opened, QUESTION, conversation))
            for meter, tokens, seconds in zip(connection(opened).speed.drafters.modes, (2, 8), (0.002, 0.1)):
                for _ in range(200):  # So many that those of the answers change nothing, however busy the machine is.
                    meter.edge(tokens, seconds, seconds)
            answers.append(await drafted_by_model(opened, QUESTION, conversation))
    assert [text for text, _, _ in answers] == expected, "whoever drafts"
    assert [by_model for _, by_model, _ in answers] == [False, True, True], answers[-1]
    assert "small one on this device" in answers[-1][2] and "the small model" in answers[-1][2]


async def test_the_other_one_drafts_while_that_does_not_run(second: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    low = [True]
    for module in (reply, routing):
        monkeypatch.setattr(module, "battery_is_low", lambda: low[0])
    async with second.asking(EDGE, starts=False) as (opened, _):
        conversation, running = opened.store.conversations.create("").id, opened.backend.routing.stand_in(None)
        await ask(opened, QUESTION, conversation)
        try_the_other(opened)
        for _ in range(2):
            assert not (await drafted_by_model(opened, QUESTION, conversation))[1]
        assert running is not None and not running.begun
        low[0] = False
        await ask(opened, QUESTION, conversation)
        await until(lambda: isinstance(running.verifier, Endpoint))
        assert (await drafted_by_model(opened, QUESTION, conversation))[1]


@pytest.mark.parametrize("offline", ["queue", "local"])
async def test_it_drafts_beside_another_only_if_it_may_also_continue_offline(second: Device, offline: str) -> None:
    settings = EDGE.replaced({"mode": "auto", "offline": offline, "local": "small one"}, "")
    async with second.asking(settings, starts=False) as (opened, _):
        await ask(opened, QUESTION)
        shown = connection(opened)
        assert shown.server.no_substitute is None, "the other one may"
        assert [one.is_model for one in shown.server.drafters] == ([False, True] if offline == "local" else [False])


async def test_an_answer_that_it_drafts_is_continued_when_the_line_breaks(second: Device, tiny_pair: Path) -> None:
    with VerifierProcess(tiny_pair) as server:
        second.url = server.url
        async with second.asking(EDGE.replaced({"mode": "auto"}, "")) as (opened, _):
            conversation = opened.store.conversations.create("").id
            await ask(opened, QUESTION, conversation)
            try_the_other(opened)
            alive = [server]

            def kill(heard: Heard) -> None:
                if isinstance(heard.last, RoundEnded) and alive:
                    said = httpx.get(f"{server.url}/metrics").text
                    assert "\noutrider_sessions 1.0\n" in said, "both drafters share it"
                    alive.pop().kill()

            heard = await ask(opened, QUESTION, conversation, kill)
        assert heard.done.stretches[-1].writer == "small one" and len(heard.done.token_ids) <= MOST
