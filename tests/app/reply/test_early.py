"""The drafter writes what it is sure of while the verifier starts, and the verifier judges it in the first round."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from app.config import Settings
from app.events import Drafted, ModeChanged
from app.remotes.source import AddressSource, SourceFailed
from app.reply.assistant import Assistant
from app.reply.routing import Options
from drafter.runtime import Drafter
from drafter.shelf import Drafters
from remote import VerifierClient
from storage import Store
from tests.support.conversing import Heard, ask, assistant, hear
from tests.support.serving import VerifierProcess

QUESTION = "list files"


class Starts(AddressSource):
    """A source like the bundled model: its model fits the drafter, and it takes a while to start."""

    own = True

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.up = asyncio.Event()
        self.fails = False

    async def client(self) -> VerifierClient:
        await self.up.wait()
        if self.fails:
            raise SourceFailed("it did not start")
        return await super().client()


async def asked(source: Starts, opened: Assistant, *, early: bool) -> tuple[Heard, str]:
    """One answer, and the text that was there before the verifier was."""
    shown = ""

    def watch(heard: Heard) -> None:
        nonlocal shown
        if not source.up.is_set() and (isinstance(heard.last, Drafted) or not early and heard.modes):
            shown = heard.text
        if not source.up.is_set() and heard.reply.mode == "warming" and (heard.reply.stats.drafted or not early):
            source.up.set()

    return await hear(opened.reply(opened.store.conversations.create("test").id, QUESTION), watch), shown


@pytest.mark.parametrize("early", [True, False])
async def test_the_drafter_writes_before_the_verifier_is_there(
    verifier: VerifierProcess,
    drafter: Drafter,
    store: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    early: bool,
) -> None:
    monkeypatch.setattr("app.reply.generation.SURE", 0.0)  # Of random weights nothing is sure.
    settings, source = Settings(max_tokens=40), Starts(verifier.url)
    async with Assistant(store, Options(Drafters(drafter), source, settings, modes=("edge",), early=early)) as opened:
        heard, shown = await asked(source, opened, early=early)
    edge = Settings(mode="edge", max_tokens=40)
    async with assistant(drafter, tmp_path / "plain.db", verifier.url, settings=edge, draft=False) as opened:
        plain = await ask(opened, QUESTION)
    assert bool(shown) == early and heard.modes == ["warming", "edge"]
    assert heard.done.token_ids == plain.done.token_ids and all(heard.done.provenance)
    assert store.messages.get(heard.message).text == plain.text


@pytest.mark.parametrize("case", ["unsure", "edge", "sampled"])
async def test_only_auto_mode_at_temperature_0_writes_early_and_only_what_is_sure(
    verifier: VerifierProcess, drafter: Drafter, store: Store, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    monkeypatch.setattr("app.reply.generation.SURE", 1.1 if case == "unsure" else 0.0)
    chosen = {"unsure": {}, "sampled": {"temperature": 0.8, "seed": 1}}.get(case, {"mode": "edge"})
    settings, source = Settings(max_tokens=8).replaced(chosen, "the test"), Starts(verifier.url)
    async with Assistant(store, Options(Drafters(drafter), source, settings, early=True)) as opened:
        asyncio.get_running_loop().call_later(0.3, source.up.set)
        heard = await ask(opened, QUESTION)
    until = next(
        at for at, event in enumerate(heard.events) if isinstance(event, ModeChanged) and event.mode != "warming"
    )
    assert not any(isinstance(event, Drafted) for event in heard.events[:until])
    assert all(heard.done.provenance)


async def test_where_the_verifier_does_not_start_the_drafter_goes_on_from_there(
    drafter: Drafter, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.reply.generation.SURE", 0.0)
    source = Starts("http://127.0.0.1:9")
    source.fails = True
    async with Assistant(store, Options(Drafters(drafter), source, Settings(max_tokens=40), early=True)) as opened:
        heard, shown = await asked(source, opened, early=True)
    async with Assistant(store, Options(Drafters(drafter), None, Settings(mode="offline", max_tokens=40))) as opened:
        alone = await ask(opened, QUESTION)
    assert shown and heard.modes == ["warming", "offline"]
    assert heard.done.token_ids == alone.done.token_ids
