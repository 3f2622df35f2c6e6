"""A whole model on this device as the drafter of a larger one: tokens a round, speed, and what the server saves.

    python -m benchmarks.local_drafter --target GGUF --local GGUF [--tasks FILE] [--limit N] [--line NAME ...]
                                       [--ways NAME ...] [--temperature T ...] [--tokens N] --out FILE

Questions are the tasks of HumanEval (`--tasks`, see `benchmarks.cut_answers`) and those of `tests/data/talk.jsonl`.
`outrider serve --no-drafter` runs the target, and the app's own assistant asks. All ways take turns, question by
question. Ways:

- `plain`: the server writes alone, in one stream
- `auto`: the device may draft, and measures whether that pays
- `measured`: the device drafts; the size of a draft follows from what a round costs
- `chain N`, `tree N`: each draft is a chain, or a tree, of N tokens

For each kind of question, line and temperature there are, over all answers of a way: tokens a round; tokens a second,
the median of the answers; and passes and processor seconds of the server for 1,000 tokens. A greedy answer that is not
the plain one, letter by letter, is counted. Nothing else should run.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import statistics
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from app.cli.machine import machine
from app.config import Settings
from app.prompts import read_prompts
from app.remotes.loopback import LocalModel
from app.remotes.source import AddressSource
from app.reply.assistant import Assistant
from app.reply.routing import Options
from benchmarks.bundled import DATA, DRAFTER, write
from benchmarks.cut_answers import read_tasks
from benchmarks.processes import cpu_seconds
from benchmarks.real_run import Run
from drafter.runtime import Drafter
from drafter.shelf import Drafters
from storage import Store
from storage.database import MEMORY
from tests.support.conversing import ask, until
from tests.support.emulator import Emulator, read_profiles

TALK = DATA / "talk.jsonl"
LOOPBACK = "loopback"
Row = dict[str, object]
WAYS = ("plain", "auto", "measured", "chain 4", "chain 8", "tree 16")


@dataclass
class Figures:
    """The answers of one way."""

    tokens: int = 0
    rounds: int = 0
    cpu: float = 0.0
    """Processor seconds of the server."""
    rates: list[float] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)


def settings_of(way: str, most: int, temperature: float) -> Settings:
    """The settings of a way. `local` alone lets the model draft, and not answer."""
    settings = Settings(max_tokens=most, temperature=temperature, seed=1, local="local")
    shape, _, size = way.partition(" ")
    if way == "plain":
        return settings.replaced({"mode": "hosted"}, way)
    if not size:
        return settings.replaced({"mode": "auto" if way == "auto" else "edge"}, way)
    nodes = int(size)
    depth, breadth = (nodes, 1) if shape == "chain" else (8, 8)
    fixed = {"mode": "edge", "pace": "fixed", "depth": depth, "breadth": breadth, "nodes": nodes}
    return settings.replaced(fixed, way)


async def measure(arguments: argparse.Namespace, kind: str, questions: Sequence[str]) -> AsyncIterator[Row]:
    """The rows of one kind of question."""
    with tempfile.TemporaryDirectory() as work:
        for line, temperature in itertools.product(arguments.line, arguments.temperature):
            with Run(arguments.target, Path(work) / "target").serve("--no-drafter") as server:
                found = {way: Figures() for way in arguments.ways}
                async with opened(arguments, server.url, line, temperature) as assistants:
                    for question in questions:
                        for way, assistant in assistants.items():
                            await answered(assistant, question, found[way], server.process)
                for way, figures in found.items():
                    yield row(kind, line, temperature, way, figures, found["plain"].texts)


@asynccontextmanager
async def opened(
    arguments: argparse.Namespace, url: str, line: str, temperature: float
) -> AsyncIterator[dict[str, Assistant]]:
    """An assistant for each way, on the same line, with the same local model, after a first answer."""
    local, drafters = LocalModel("local", arguments.local), Drafters(Drafter.load(DRAFTER))
    async with AsyncExitStack() as stack:
        if line != LOOPBACK:
            emulator = Emulator(read_profiles()[line], "127.0.0.1", int(url.rpartition(":")[2]))
            url = (await stack.enter_async_context(emulator)).url
        assistants = {}
        for way in arguments.ways:
            store = stack.enter_context(Store.open(MEMORY))
            settings, source = settings_of(way, arguments.tokens, temperature), AddressSource(url)
            options = Options(drafters, source, settings, draft=way != "plain", stand_in=lambda _: local)
            assistants[way] = await stack.enter_async_context(Assistant(store, options))
        await warm(assistants, local)
        yield assistants


async def warm(assistants: Mapping[str, Assistant], local: LocalModel) -> None:
    """Have each way answer once, and the local model run."""
    for way, assistant in assistants.items():
        await ask(assistant, "Count from one to thirty in words.")
        if way not in ("plain", "auto"):
            await until(lambda: local.process_id is not None)
            await ask(assistant, "Count from one to thirty in words.")


async def answered(assistant: Assistant, question: str, figures: Figures, server: int) -> None:
    """Ask a question and add its figures."""
    before = cpu_seconds(server)
    heard = await ask(assistant, question)
    if heard.done is None:
        raise RuntimeError(str(heard.failed))
    stats = heard.done.stats
    figures.cpu += cpu_seconds(server) - before
    tokens = stats.verified + (stats.streamed or 0)
    figures.tokens, figures.rounds = figures.tokens + tokens, figures.rounds + (stats.rounds or tokens)
    figures.texts.append(heard.text)
    if stats.first_token_seconds is not None and stats.seconds > stats.first_token_seconds:
        figures.rates.append(tokens / (stats.seconds - stats.first_token_seconds))


def row(kind: str, line: str, temperature: float, way: str, figures: Figures, plain: Sequence[str]) -> Row:
    differ = sum(one != other for one, other in zip(figures.texts, plain, strict=True))
    return {
        "questions": f"{len(figures.texts)} {kind}",
        "line": line,
        "temperature": temperature,
        "way": way,
        "tokens": figures.tokens,
        "tau": round(figures.tokens / max(1, figures.rounds), 2),
        "tokens/s": round(statistics.median(figures.rates), 1) if figures.rates else None,
        "passes per 1,000": round(1000 * figures.rounds / max(1, figures.tokens)),
        "server's CPU s per 1,000": round(1000 * figures.cpu / max(1, figures.tokens), 1),
        "other text": differ,
    }


async def main(arguments: argparse.Namespace) -> None:
    kinds = {"talk": [question for entry in read_prompts(TALK) for question in entry.turns]}
    if arguments.tasks is not None:
        kinds = {"code": [task.question for task in read_tasks(arguments.tasks)], **kinds}
    rows: list[Row] = []
    for kind, questions in kinds.items():
        async for one in measure(arguments, kind, questions[: arguments.limit]):
            print(*one.values(), sep=", ", flush=True)
            rows.append(one)
            write(arguments.out, rows, machine(), target=arguments.target.name, local=arguments.local.name)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--local", type=Path, required=True)
    parser.add_argument("--tasks", type=Path)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--line", nargs="+", default=[LOOPBACK])
    parser.add_argument("--ways", nargs="+", default=list(WAYS))
    parser.add_argument("--temperature", type=float, nargs="+", default=[0.0])
    parser.add_argument("--tokens", type=int, default=80)
    parser.add_argument("--out", type=Path, required=True)
    asyncio.run(main(parser.parse_args()))
