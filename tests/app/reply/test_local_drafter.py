"""A model on this device drafts for a server whose model has the same tokenizer, and the text stays the server's."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from app.config import Settings
from app.events import RoundEnded
from app.remotes.local_drafter import LocalDrafter
from app.remotes.loopback import LocalModel
from app.remotes.source import AddressSource
from app.reply.assistant import Assistant
from app.reply.routing import Options
from drafter.runtime import Drafter
from drafter.shelf import Drafters
from storage import Store
from tests.support.conversing import Heard, ask
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


@asynccontextmanager
async def drafting(
    drafter: Drafter, database: Path, url: str, model: Path | None, settings: Settings
) -> AsyncIterator[Assistant]:
    """An assistant that has this model on its device, started, if it has one."""
    source = None if model is None else LocalModel("small one", model)
    local = None if source is None else LocalDrafter(source, None)
    with Store.open(database) as store:
        chosen = Options(Drafters(drafter), AddressSource(url), settings, stand_in=source, local=local, modes=("edge",))
        async with Assistant(store, chosen) as opened:
            if source is not None:
                await source.client()
            yield opened


def rounds(heard: Heard) -> list[RoundEnded]:
    assert heard.done is not None, heard.failed
    return [event for event in heard.events if isinstance(event, RoundEnded)]


async def test_it_drafts_and_the_text_stays_the_servers(
    other_drafter: Drafter, tmp_path: Path, smaller: Path, server: VerifierProcess
) -> None:
    async with drafting(
        other_drafter, tmp_path / "plain.db", server.url, None, EDGE.replaced({"mode": "auto"}, "")
    ) as opened:
        expected = (await ask(opened, QUESTION)).text
    async with drafting(other_drafter, tmp_path / "drafted.db", server.url, smaller, EDGE) as opened:
        heard = await ask(opened, QUESTION)
    assert heard.text == expected and len(expected) > 20
    reports = [one.report for one in rounds(heard)]
    gained = [report.gained for report in reports if report is not None]
    assert sum(gained) == MOST and max(gained) > 2, "it guesses right often"
    assert min(gained) < max(gained), "and not always"
