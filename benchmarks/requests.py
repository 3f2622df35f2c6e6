"""A born drafter, requests that it has never met, and the app that asks them of a real verifier."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import numpy as np

from app.config import BUNDLED_DRAFTER, Settings
from app.remotes.source import AddressSource
from app.reply.assistant import Assistant
from app.reply.routing import Options
from benchmarks.emulator import Emulator, read_profiles
from benchmarks.served import OWN, Served
from drafter.runtime import Drafter
from drafter.shelf import Drafters
from models.guide.pages import FILE, Pages
from storage import Store

Rows = dict[str, Any]

LINES = ("4g", "3g")
MOST_TOKENS = 64
BUDGET = 6_000_000
"""Bytes of a born drafter, which is as small as the bundled target allows."""


def born(target: str, drafter: Path, budget: int = BUDGET) -> None:
    """Make a drafter of a target's own layers."""
    from drafter.questions import usual_questions
    from remote.verifier.maker_worker import made_at_once

    print(made_at_once(target, drafter, usual_questions(), budget), file=sys.stderr)


def requests(platform: str, count: int, seed: int) -> list[str]:
    """Tasks of a platform's pages as questions, in a random order."""
    pages = Pages.open(BUNDLED_DRAFTER / FILE)
    try:
        rows = pages.rows(
            "SELECT examples.task FROM examples JOIN pages ON pages.id = examples.page WHERE pages.platform = ?",
            (platform,),
        )
    finally:
        pages.close()
    asked = sorted({f"How do I {task[0].lower()}{task[1:]}?" for (task,) in rows if task})
    return [asked[at] for at in np.random.default_rng(seed).permutation(len(asked))[:count]]


async def answer_all(
    target: str, drafter: Path, database: Path, questions: Sequence[str], *, second_stage: bool = True
) -> None:
    """Ask each question in a conversation of its own, as the app does."""
    settings, opened = Settings(mode="edge", max_tokens=MOST_TOKENS, second_stage=second_stage), Drafter.load(drafter)
    with Store.open(database) as store:
        async with Served(target, drafter, None, 0.0) as served:
            source = AddressSource(served.url + OWN)
            async with Assistant(
                store, Options(Drafters(opened), source, settings, modes=("edge",), learnt=database.parent)
            ) as assistant:
                for number, question in enumerate(questions):
                    await ask(assistant, store, question)
                    if number % 50 == 49:
                        print(f"{number + 1} of {len(questions)} answered", file=sys.stderr, flush=True)


async def ask(assistant: Assistant, store: Store, question: str) -> str:
    """Ask in a new conversation. Returns its id."""
    conversation = store.conversations.create("stream").id
    async for _ in assistant.reply(conversation, question):
        pass
    return conversation


async def on_lines(target: str, drafter: Path, ways: Mapping[str, Path | None], questions: Sequence[str]) -> Rows:
    """Seconds of an answer on emulated lines, for each graph. The graphs take turns with each question."""
    profiles, rows = read_profiles(), {}
    with tempfile.TemporaryDirectory() as scratch, Store.open(Path(scratch) / "lines.db") as store:
        async with Served(target, drafter, None, 0.0) as served:
            for line in LINES:
                seconds: dict[str, list[float]] = {name: [] for name in ways}
                tokens = {name: 0 for name in ways}
                async with Emulator(profiles[line], "127.0.0.1", served.port) as emulator, AsyncExitStack() as open_:
                    drafting = {}
                    for name, graph in ways.items():
                        opened = Drafter.load(drafter)
                        opened.correct(None, 0, graph)
                        source = AddressSource(emulator.url + OWN)
                        settings = Settings(mode="edge", max_tokens=MOST_TOKENS)
                        drafting[name] = await open_.enter_async_context(
                            Assistant(store, Options(Drafters(opened), source, settings, modes=("edge",)))
                        )
                    for number, question in enumerate([questions[-1], *questions]):
                        for name in list(ways) if number % 2 else list(ways)[::-1]:
                            begun = time.monotonic()
                            conversation = await ask(drafting[name], store, question)
                            if number:  # The first one opens the connection.
                                seconds[name].append(time.monotonic() - begun)
                                tokens[name] += len(store.branches.thread(conversation)[-1].tokens)
                rows[line] = {
                    name: {"p50": float(np.median(each)), "tokens_per_second": tokens[name] / sum(each)}
                    for name, each in seconds.items()
                }
                print(line, rows[line], flush=True)
    return rows
