"""In hosted mode the drafter reads along where it may go on alone, and nowhere else."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from app.config import Settings
from app.drafting.drafting import READ_TOKENS
from app.remotes.loopback import Loopback
from app.reply.assistant import Assistant
from app.reply.routing import Options
from drafter.runtime import Drafter
from drafter.shelf import Drafters
from drafter.step import StepGraph
from storage import Store
from tests.support.conversing import ask, assistant, until_connected
from tests.support.fault_proxy import FaultProxy
from tests.support.faults import after, lasting, refused
from tests.support.patience import PATIENCE_SECONDS
from tests.support.serving import VerifierProcess

QUESTION = "how do I unpack a tar archive?"


class Watched:
    """A real step graph that notes how many tokens each call runs."""

    def __init__(self, step: StepGraph) -> None:
        self.step, self.runtime, self.cache_shapes, self.slab = step, step.runtime, step.cache_shapes, step.slab
        self.independent_rows = step.independent_rows
        self.calls: list[int] = []

    def __call__(self, tokens: Any, *rest: Any) -> Any:
        self.calls.append(len(tokens))
        return self.step(tokens, *rest)


@pytest.fixture
def watched(tiny_pair: Path) -> Watched:
    return Watched(StepGraph.load(tiny_pair / "drafter", Drafter.load(tiny_pair / "drafter").config))


@pytest.fixture
def drafter(tiny_pair: Path, watched: Watched) -> Drafter:
    loaded = Drafter.load(tiny_pair / "drafter")
    return Drafter(loaded.config, loaded.text, watched)  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["auto", "hosted"])
async def test_it_reads_only_where_it_may_go_on(
    verifier: VerifierProcess, drafter: Drafter, watched: Watched, tmp_path: Path, mode: Any
) -> None:
    settings = Settings(mode=mode, max_tokens=60)
    async with assistant(drafter, tmp_path / "a.db", verifier.url, settings=settings, modes=("hosted",)) as opened:
        await opened.settled()
        heard = await ask(opened, QUESTION)
    assert heard.modes[-1] == "hosted" and heard.done is not None and all(heard.done.provenance)
    assert bool(watched.calls) == (mode == "auto")


async def test_it_does_not_read_along_with_a_server_that_this_program_runs(
    tiny_pair: Path, drafter: Drafter, watched: Watched, tmp_path: Path
) -> None:
    source = Loopback(str(tiny_pair / "target"), str(tiny_pair / "drafter"))
    with Store.open(tmp_path / "a.db") as store:
        async with Assistant(
            store, Options(Drafters(drafter), source, Settings(max_tokens=60), modes=("hosted",))
        ) as opened:
            await until_connected(opened)
            calls = len(watched.calls)  # It may have written something while the server started.
            heard = await ask(opened, QUESTION)
    assert heard.modes[-1] == "hosted" and heard.done is not None and all(heard.done.provenance)
    assert len(watched.calls) == calls


async def test_after_a_cut_its_first_word_needs_no_reading_of_the_prompt(
    verifier: VerifierProcess, drafter: Drafter, watched: Watched, tmp_path: Path
) -> None:
    asked, settings = f"{QUESTION} {'Say all of it. ' * 20}", Settings(max_tokens=60)
    calls_at_cut: list[int] = []

    async def cut(exchange: Any) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not watched.calls or watched.calls[-1] == READ_TOKENS:  # The last piece of the prompt is shorter.
                await asyncio.sleep(0.001)
        await lasting(refused)(exchange)
        calls_at_cut.extend(watched.calls)

    async with (
        FaultProxy([verifier.port]) as proxy,
        assistant(drafter, tmp_path / "a.db", proxy.url, settings=settings, modes=("hosted",)) as opened,
    ):
        await opened.settled()
        proxy.at(0, after(8000, cut))
        heard = await ask(opened, asked)
    assert heard.modes[0] == "hosted" and heard.modes[-1] == "offline" and heard.done is not None
    assert 0 < heard.done.stats.verified < 60 and not all(heard.done.provenance)
    assert max(watched.calls[len(calls_at_cut) :]) <= 2 * READ_TOKENS
