"""Asks one question in one way of answering, over one emulated line: what arrived, how long it took, what it cost.

`AssistantCell` asks the app itself. `PlainCell` reads the target's tokens as an ordinary streaming service sends them,
one per forward pass. Both give a `Sample`. Times run from the question to the end of the answer. Bytes are those that
crossed the line, including connecting and late memory. Forward passes are the verifier's own count.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Protocol, Self

import httpx
import msgspec

from app.config import Settings
from app.events import Drafted, Failed, ModeChanged, RoundEnded, Verified
from app.remotes.source import AddressSource
from app.reply.answer import Answer
from app.reply.assistant import Assistant
from app.reply.dimmed_text import DimmedText
from app.reply.routing import Options
from benchmarks.served import OWN
from drafter.runtime import Drafter
from drafter.shelf import Drafters
from remote import RemoteError, VerifierClient
from remote.protocol import Progress, Sampling, unpack_tokens
from storage import Store
from tests.support.emulator import Emulator

PATIENCE_SECONDS = 60.0
"""How long plain streaming waits for a byte."""
PLAIN_TRIES = 5
"""How often it resumes after its connection broke."""

MODES: dict[str, Mapping[str, object] | None] = {
    "edge": {"mode": "edge"},
    "hosted": {"mode": "hosted"},
    "auto": {"mode": "auto"},
    "plain": None,
}
"""Ways of answering, with the settings of the app. None means plain streaming, without the app."""


class Sample(msgspec.Struct, kw_only=True):
    """One answer. Seconds count from the question."""

    tokens: tuple[int, ...]
    verified: int
    """How many of the tokens, from the first on, are verified."""
    seconds: float
    first_drafted: float | None = None
    first_verified: float | None = None
    rounds: int = 0
    passes: int = 0
    """Forwards of the target."""
    bytes_up: int = 0
    bytes_down: int = 0
    levels: int = 0
    nodes: int = 0
    """Drafter calls, and nodes that were sent."""
    draft_seconds: float = 0.0
    server_seconds: float = 0.0
    line_seconds: float = 0.0
    """Seconds of all rounds together: drafting, the verifier's time, and the verdicts' time on the line."""
    counts: dict[str, int] = {}
    """The app's own counts."""
    dimmed: int = 0
    confirmed: int = 0
    withdrawn: int = 0
    """Characters that were shown dimmed, and how many of them a verdict kept or withdrew; see
    `app/reply/dimmed_text.py`."""
    chose: str = ""
    """The app's last mode in this answer."""
    why: str = ""
    failed: str = ""
    """Why there is no whole answer. Empty if there is one."""


class Cell(Protocol):
    """One way of answering on one line."""

    emulator: Emulator

    async def ask(self, question: str) -> Sample: ...


class AssistantCell:
    """Asks the app, with a fresh database."""

    def __init__(self, emulator: Emulator, store: Store, assistant: Assistant) -> None:
        self.emulator = emulator
        self._store = store
        self._assistant = assistant

    async def ask(self, question: str) -> Sample:
        conversation = self._store.conversations.create("")
        sample, dimmed = Sample(tokens=(), verified=0, seconds=0.0), DimmedText()
        begun = time.monotonic()
        async for event in self._assistant.reply(conversation.id, question):
            now = time.monotonic() - begun
            dimmed.apply(event)
            if isinstance(event, Drafted) and event.text and sample.first_drafted is None:
                sample.first_drafted = now
            elif isinstance(event, Verified) and event.text and sample.first_verified is None:
                sample.first_verified = now
            elif isinstance(event, ModeChanged):
                sample.chose, sample.why = event.mode, event.why
            elif isinstance(event, RoundEnded):
                if (report := event.report) is not None:
                    sample.levels += report.levels
                    sample.nodes += report.nodes
                    sample.draft_seconds += report.draft_seconds
                    sample.server_seconds += report.server_seconds
                    sample.line_seconds += report.rtt_seconds
                sample.counts = {name: value for name, value in asdict(event.stats).items() if isinstance(value, int)}
            elif isinstance(event, Failed):
                sample.failed = event.message
        sample.seconds = time.monotonic() - begun
        answer = self._store.branches.thread(conversation.id)[-1]
        sample.tokens, sample.verified = answer.tokens, sum(answer.provenance)
        sample.rounds = sample.counts.get("rounds", 0)
        sample.dimmed, sample.confirmed, sample.withdrawn = dimmed.shown, dimmed.confirmed, dimmed.withdrawn
        return sample


class PlainCell:
    """Reads the target's tokens one by one."""

    def __init__(self, emulator: Emulator, client: VerifierClient, drafter: Drafter, most: int) -> None:
        """`drafter` says how the target is asked. It drafts nothing."""
        self.emulator = emulator
        self._client, self._drafter, self._most = client, drafter, most

    async def ask(self, question: str) -> Sample:
        return await plainly(self._client, self._drafter, question, self._most)


async def plainly(client: VerifierClient, drafter: Drafter, question: str, most: int) -> Sample:
    """Yield an answer as a stream of single tokens. A broken stream is resumed where it broke."""
    session, tries = client.session(), 0
    text = drafter.text
    prompt, answer = drafter.asked_as(question), Answer(text)
    sample = Sample(tokens=(), verified=0, seconds=0.0, chose="plain")
    begun = time.monotonic()
    while not sample.failed and not (len(answer.tokens) == most or set(answer.tokens[-1:]) & text.stop_tokens):
        try:
            stream = await session.stream(
                [*prompt, *answer.tokens],
                Sampling(),
                most=most - len(answer.tokens),
                memory_from=None,
                deadline=PATIENCE_SECONDS,
                silence=PATIENCE_SECONDS,
                draft=False,
            )
            async for frame in stream:
                assert isinstance(frame, Progress)
                shown = answer.verify(unpack_tokens(frame.tokens), 0)
                sample.rounds += 1
                sample.server_seconds += frame.server_seconds
                if sample.first_verified is None and any(isinstance(step, Verified) and step.text for step in shown):
                    sample.first_verified = time.monotonic() - begun
        except RemoteError as error:
            tries += 1
            sample.failed = str(error) if tries == PLAIN_TRIES else ""
    sample.seconds = time.monotonic() - begun
    sample.tokens, sample.verified = tuple(answer.tokens), len(answer.tokens)
    return sample


class CellStack(AsyncExitStack):
    """Opens cells, and closes their resources."""

    async def cell(self, mode: str, emulator: Emulator, drafter: Drafter, max_tokens: int) -> Cell:
        """A way of answering, by its name in `MODES`."""
        await self.enter_async_context(emulator)
        url, chosen = emulator.url + OWN, MODES[mode]
        if chosen is None:
            return PlainCell(emulator, await self.enter_async_context(VerifierClient(url)), drafter, max_tokens)
        folder = Path(self.enter_context(tempfile.TemporaryDirectory()))
        store = self.enter_context(Store.open(folder / "outrider.db"))
        settings = Settings(max_tokens=max_tokens, seed=0, offline="drafter").replaced({**chosen}, mode)
        assistant = Assistant(store, Options(Drafters(drafter), AddressSource(url), settings))
        return AssistantCell(emulator, store, await self.enter_async_context(assistant))


class Counted:
    """Asks cells, and adds the line's bytes and the target's forward passes to each sample."""

    def __init__(self, url: str) -> None:
        """`url`: the verifier itself, not the emulator."""
        self._url = url
        self._http = httpx.AsyncClient(trust_env=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._http.aclose()

    async def ask(self, cell: Cell, question: str) -> Sample:
        """Ask, and wait until the line is quiet."""
        emulator = cell.emulator
        before = await self._forwards()
        up, down = emulator.bytes_up, emulator.bytes_down
        sample = await cell.ask(question)
        await _quiet(emulator)
        sample.passes = await self._forwards() - before
        sample.bytes_up, sample.bytes_down = emulator.bytes_up - up, emulator.bytes_down - down
        return sample

    async def _forwards(self) -> int:
        page = (await self._http.get(f"{self._url}{OWN}/metrics")).text
        found = re.search(r"^outrider_forwards_total ([\d.e+]+)$", page, re.MULTILINE)
        assert found is not None
        return int(float(found[1]))


async def _quiet(emulator: Emulator) -> None:
    """Wait until the line has carried nothing for a while, so that the next cell measures only its own bytes."""
    pause, carried = 0.05 + 1.5 * emulator.profile.rtt_ms / 1000, -1
    for _ in range(20):
        if carried == (carried := emulator.bytes_up + emulator.bytes_down):
            return
        await asyncio.sleep(pause)
