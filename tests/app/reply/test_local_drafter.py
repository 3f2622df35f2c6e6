"""A model on this device drafts for a server whose model has the same tokenizer, and the text stays the server's."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from app.config import Settings
from app.events import RoundEnded
from app.remotes.loopback import LocalModel
from app.remotes.peer import Endpoint, Verifier
from app.remotes.source import AddressSource
from app.reply.assistant import Assistant
from app.reply.routing import Options
from drafter.runtime import Drafter
from drafter.shelf import Drafters
from models.config import TOKENIZER
from storage import Store
from tests.support.conversing import Heard, ask, until
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


@dataclass
class Device:
    """A device with a drafter of another tokenizer, and with this model."""

    drafter: Drafter
    folder: Path
    url: str
    model: Path

    @asynccontextmanager
    async def asking(self, settings: Settings, *, starts: bool = True) -> AsyncIterator[tuple[Assistant, LocalModel]]:
        """An assistant and the model on its device. `starts`: which runs before the first question."""
        with Store.open(self.folder / f"{len(list(self.folder.iterdir()))}.db") as store:
            options = Options(
                Drafters(self.drafter),
                AddressSource(self.url),
                settings,
                stand_in=lambda name: LocalModel("small one", self.model),
                modes=("edge",),
            )
            async with Assistant(store, options) as opened:
                stand_in = opened.backend.routing.stand_in(None)
                assert stand_in is not None and isinstance(stand_in.source, LocalModel)
                if starts:
                    stand_in.start()
                    await until(lambda: isinstance(stand_in.verifier, Endpoint))
                yield opened, stand_in.source

    async def plain(self, settings: Settings) -> str:
        """What the server says by itself."""
        with Store.open(self.folder / f"plain-{len(list(self.folder.iterdir()))}.db") as store:
            plain = Options(Drafters(self.drafter), AddressSource(self.url), settings.replaced({"mode": "auto"}, ""))
            async with Assistant(store, plain) as opened:
                heard = await ask(opened, QUESTION)
        assert heard.done is not None, heard.failed
        return heard.text


@pytest.fixture
def device(other_drafter: Drafter, tmp_path: Path, smaller: Path, server: VerifierProcess) -> Device:
    return Device(other_drafter, tmp_path, server.url, smaller)


def gained(heard: Heard) -> list[int]:
    """The tokens of each round."""
    assert heard.done is not None, heard.failed
    reports = [event.report for event in heard.events if isinstance(event, RoundEnded)]
    return [report.gained for report in reports if report is not None]


WAYS: dict[str, dict[str, object]] = {
    "greedy": {},
    "trees of one size, drafted ahead": {"pace": "fixed", "depth": 3, "breadth": 2, "nodes": 8},
    "chains": {"pace": "fixed", "depth": 6, "breadth": 1, "nodes": 6},
    "with a seed": {"temperature": 1.0, "seed": 7},
    "without a second stage": {"second_stage": False, "ahead": False},
}


@pytest.mark.parametrize("way", WAYS)
async def test_it_drafts_and_the_text_stays_the_servers(device: Device, way: str) -> None:
    settings = EDGE.replaced(WAYS[way], "")
    expected = await device.plain(settings)
    async with device.asking(settings) as (opened, _):
        heard = await ask(opened, QUESTION)
        again = await ask(opened, QUESTION)
    assert heard.text == again.text == expected and len(expected) > 20
    assert sum(gained(heard)) == MOST and max(gained(heard)) > 2, "it guesses right often"
    assert min(gained(heard)) < max(gained(heard)), "and not always"


async def test_a_sampled_tree_is_drawn_from_it(device: Device) -> None:
    settings = EDGE.replaced({"tree": "sampled", "temperature": 0.7, "seed": 3}, "")
    async with device.asking(settings) as (opened, _):
        heard = await ask(opened, QUESTION)
    assert sum(gained(heard)) == MOST and max(gained(heard)) > 2


async def test_a_model_that_is_killed_costs_its_drafts_and_nothing_else(device: Device) -> None:
    expected = await device.plain(EDGE)
    async with device.asking(EDGE.replaced({"ahead": False}, "")) as (opened, model):
        heard, rounds, conversation = Heard(), 0, opened.store.conversations.create("").id
        async with aclosing(opened.reply(conversation, QUESTION)) as events:
            async for event in events:
                heard.apply(event)
                rounds += isinstance(event, RoundEnded)
                if isinstance(event, RoundEnded) and rounds == 2 and model.process_id is not None:
                    os.kill(model.process_id, signal.SIGKILL)
    assert heard.done is not None, heard.failed
    assert heard.text == expected
    reports = [event.report for event in heard.events if isinstance(event, RoundEnded)]
    assert any(report is not None and not report.nodes for report in reports[2:]), "while it starts again"


async def test_it_starts_with_the_first_question_that_it_drafts_for(device: Device) -> None:
    async with device.asking(EDGE, starts=False) as (opened, model):
        assert model.process_id is None
        heard = await ask(opened, QUESTION)
        assert model.process_id is not None
    assert heard.text == await device.plain(EDGE)


async def test_a_model_that_is_chosen_later_drafts_from_then_on(device: Device) -> None:
    settings = EDGE.replaced({"mode": "auto", "offline": "queue"}, "")
    async with device.asking(settings, starts=False) as (opened, _):
        expected = (await ask(opened, QUESTION)).text
        await opened.stand_by("small one")
        shown, running = opened.backend.routing.shown, opened.backend.routing.stand_in("small one")
        assert shown is not None and running is not None
        running.start()
        await until(lambda: isinstance(shown.verifier, Verifier) and isinstance(running.verifier, Endpoint))
        heard = await ask(opened, QUESTION)
    assert heard.text == expected and max(gained(heard)) > 2


async def test_nobody_starts_it_where_only_the_server_drafts(device: Device) -> None:
    hosted = EDGE.replaced({"mode": "hosted", "offline": "fail"}, "")
    async with device.asking(hosted, starts=False) as (opened, model):
        assert (await ask(opened, QUESTION)).text == await device.plain(EDGE)
        assert model.process_id is None


async def test_a_model_with_another_tokenizer_drafts_nothing(device: Device) -> None:
    device.model = Path(shutil.copytree(device.model, device.folder / "other"))
    tokenizer = json.loads((device.model / TOKENIZER).read_bytes())
    words = tokenizer["model"]["vocab"]
    words["a"], words["b"] = words["b"], words["a"]
    (device.model / TOKENIZER).write_text(json.dumps(tokenizer))
    async with device.asking(EDGE.replaced({"mode": "auto"}, ""), starts=False) as (opened, model):
        heard = await ask(opened, QUESTION)
        shown = opened.backend.routing.shown
        assert shown is not None and shown.server.drafter is None and isinstance(shown.verifier, Endpoint)
    assert heard.text == await device.plain(EDGE)


async def test_a_drafter_that_was_made_for_the_servers_model_comes_first(
    device: Device, drafter: Drafter, verifier: VerifierProcess
) -> None:
    device.drafter, device.url = drafter, verifier.url
    async with device.asking(EDGE, starts=False) as (opened, _):
        heard = await ask(opened, QUESTION)
        shown = opened.backend.routing.shown
        assert shown is not None and shown.server.drafter is drafter
    assert max(gained(heard)) > 1
