"""Answers of one pretrained model in all ways, for `benchmarks.real_models`: whether they are equal, and how fast."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import shlex
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from app.config import BUNDLED_DRAFTER, Settings
from app.events import Failed, ReplyText
from app.remotes.source import AddressSource
from app.reply.assistant import Assistant
from app.reply.routing import Options
from benchmarks.real_run import POEM, Count, Figures, Run, usable
from benchmarks.reference import Reference
from benchmarks.service import Running, Server
from drafter.runtime import Drafter
from drafter.shelf import Drafters
from models.text.chat_text import ChatText
from storage import Store
from tests.support.emulator import Emulator, read_profiles

CUT = "\ufffd"
"""The replacement for an incomplete character."""
WAYS: Mapping[str, Mapping[str, object]] = {
    "plain": {"mode": "hosted"},
    **{mode: {"mode": mode} for mode in ("hosted", "edge", "auto")},
    "trees": {"mode": "edge", "pace": "fixed", "depth": 8, "breadth": 8, "nodes": 60},
}
"""The settings of each way in which the app answers. `plain` is `--no-draft --mode hosted`: one
stream. In the other modes a server of this drafter answers token by token, and each token waits for the line."""
TIMED = ("plain", "hosted", "edge", "auto")
LOOP, OTHER = "llama.cpp without a server", "the other server"
LOOPBACK, LINES = "loopback", ("loopback", "4g")


class Answer(NamedTuple):
    """One answer. Seconds count from the question."""

    text: str
    began: str
    """Its first piece of text."""
    first: float
    """When that arrived."""
    seconds: float

    def rate(self, text: ChatText) -> float | None:
        """Tokens per second after the first piece, or None if nothing came after it."""
        rest = len(text.encode(self.text)) - len(text.encode(self.began))
        return rest / (self.seconds - self.first) if rest > 0 else None


Ask = Callable[[str], Awaitable[Answer]]


@contextlib.asynccontextmanager
async def device(url: str, drafts: Drafter, way: str, most: int) -> AsyncIterator[Ask]:
    """The app with an empty database, which answers in one of `WAYS` from the server at `url`."""
    settings = Settings(max_tokens=most, temperature=0.0, seed=0).replaced({**WAYS[way]}, way)
    with tempfile.TemporaryDirectory() as folder, Store.open(Path(folder) / "outrider.db") as store:
        async with Assistant(
            store, Options(Drafters(drafts), AddressSource(url), settings, draft=way != "plain")
        ) as assistant:
            yield partial(_answer, assistant, store)


async def _answer(assistant: Assistant, store: Store, question: str) -> Answer:
    conversation, reply, begun = store.conversations.create(""), ReplyText(), time.monotonic()
    began, first = "", 0.0
    async for event in assistant.reply(conversation.id, question):
        reply.apply(event)
        if not began and reply.solid:
            began, first = reply.solid, time.monotonic() - begun
        if isinstance(event, Failed):
            raise RuntimeError(event.message)
    return Answer(reply.solid, began, first, time.monotonic() - begun)


def drafting(run: Run) -> tuple[tuple[str, str] | tuple[str], Drafter, bool]:
    """The options of a server, the drafter on the device, and whether it is this model's."""
    if (folder := usable(run)) is None:
        return ("--no-drafter",), Drafter.load(BUNDLED_DRAFTER), False
    return ("--drafter", str(folder)), Drafter.load(folder), True


# ---- equal text ------------------------------------------------------------------------------------------------------


def answers(run: Run) -> Figures:
    """How many greedy answers are equal, without drafts to those of the reference, and with them to those without.

    Each way has its own server, because other conversations on a server may change how it rounds. The effect on the
    text is a figure too: the same questions are asked once more.
    """
    options, drafts, own = drafting(run)
    said = {}
    for way in WAYS if own else ("plain",):
        with run.serve(*options) as serving:
            said[way] = asyncio.run(_texts(serving.url, drafts, way, run))
            if way == "plain":
                again = asyncio.run(_texts(serving.url, drafts, way, run))
    text = run.text()
    with Reference(run.model) as reference:
        told = [reference.ask(prompt=text.render([("user", question)]), most=run.tokens) for question in run.questions]
    wanted = [text.decode([token for token in one["tokens"] if token not in text.stop_tokens]) for one in told]
    figures: Figures = {f"plain = {'llama.cpp' if run.is_gguf else 'transformers'}": _same(said["plain"], wanted)}
    figures["plain, asked again = plain"] = _same(again, said["plain"])
    figures |= {f"{way} = plain": _same(said[way], said["plain"]) for way in said if way != "plain"}
    return figures if own else {**figures, "with drafts": "not tried: there is no drafter"}


async def _texts(url: str, drafts: Drafter, way: str, run: Run) -> list[str]:
    async with device(url, drafts, way, run.tokens) as ask:
        return [(await ask(question)).text for question in run.questions]


def _same(some: Sequence[str], others: Sequence[str]) -> Count:
    """How many are equal. A character that the last token cut off is ignored: half of it may be shown, or nothing."""
    return Count(
        sum(one.rstrip(CUT) == other.rstrip(CUT) for one, other in zip(some, others, strict=True)), len(others)
    )


# ---- speed -----------------------------------------------------------------------------------------------------------


def speed(run: Run) -> Figures:
    """Medians of each way on each line, and their ratios."""
    options, drafts, own = drafting(run)
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(run.serve(*options)).url
        servers = {way: url for way in (TIMED if own else TIMED[:1])}
        if run.llama_server and run.is_gguf:
            command = tuple(shlex.split(run.llama_server.replace("{model}", str(run.model))))
            servers[OTHER] = stack.enter_context(Running(Server(OTHER, command))).url
        reference = stack.enter_context(Reference(run.model)) if run.is_gguf else None
        return _medians(asyncio.run(_timed(run, servers, drafts, reference)), run.text())


Timed = dict[tuple[str, str], list[Answer]]


async def _timed(run: Run, servers: Mapping[str, str], drafts: Drafter, reference: Reference | None) -> Timed:
    """Answers by line and by way. Each question is asked in all ways before the next one."""
    async with contextlib.AsyncExitStack() as stack:
        asks: dict[tuple[str, str], Ask] = {}
        for line, (way, url) in itertools.product(LINES, servers.items()):
            if line != LOOPBACK:
                emulator = Emulator(read_profiles()[line], "127.0.0.1", int(url.rpartition(":")[2]))
                url = (await stack.enter_async_context(emulator)).url
            opening = device(url, drafts, way if way in WAYS else "plain", run.tokens)
            asks[line, way] = await stack.enter_async_context(opening)
        if reference is not None:
            asks[LOOPBACK, LOOP] = partial(_by_reference, reference, run.text(), run.tokens)
        found: Timed = {key: [] for key in asks}
        order = list(asks)
        for number, question in enumerate((POEM, *run.questions)):
            for key in order[number % len(order) :] + order[: number % len(order)]:
                answer = await asks[key](question)
                if number:  # The first question only warms up.
                    found[key].append(answer)
    return found


async def _by_reference(reference: Reference, text: ChatText, most: int, question: str) -> Answer:
    prompt = text.render([("user", question)])
    told = await asyncio.to_thread(reference.ask, prompt=prompt, most=most)
    return Answer(text.decode(told["tokens"]), text.decode(told["tokens"][:1]), told["first"], told["seconds"])


def _medians(timed: Timed, text: ChatText) -> Figures:
    figures: Figures = {}
    rates: dict[tuple[str, str], float] = {}
    for (line, way), found in timed.items():
        if known := [rate for answer in found if (rate := answer.rate(text)) is not None]:
            rates[line, way] = statistics.median(known)
            figures[f"{line}, {way}: tokens/s"] = round(rates[line, way], 1)
        figures[f"{line}, {way}: first text, s"] = round(statistics.median(answer.first for answer in found), 2)
    for line, way in timed:
        one, other = ("plain", way) if way in (LOOP, OTHER) else (way, "plain")
        if one != other and (line, one) in rates and (line, other) in rates:
            figures[f"{line}, {one} over {other}"] = round(rates[line, one] / rates[line, other], 2)
    return figures
