"""A whole model on this device as the drafter of a larger one: tokens a round, speed, and what the server saves.

    python -m benchmarks.local_drafter --target GGUF --local GGUF [--tasks FILE] [--limit N] [--line NAME ...]
                                       [--kinds NAME ...] [--ways NAME ...] [--temperature T ...] [--tokens N]
                                       [--other NAME=COMMAND ...] [--pinned] --out FILE

Questions are the tasks of HumanEval (`code`: `--tasks`, see `benchmarks.cut_answers`), small changes to their solutions
(`edits`), and those of `tests/data/talk.jsonl` (`talk`). `outrider serve` runs the target, and the app's own assistant
asks. Ways take turns at each question, each as a token holder of its own, for whom the server reads the prompt anew:

- `plain`: the server writes alone, in one stream, token by token
- `lookups`: as `plain`, with drafts that the server looks up in the conversation where that pays
- `auto`: the device may draft, and measures whether that pays
- `edge`: the device drafts as much as pays; `chain N`, `tree N`: each draft is a chain, or a tree, of N tokens

`--other` adds a way: another server, by its command with `{port}` in it, such as
"llama.cpp=llama-server -m target.gguf -md local.gguf --port {port}", asked by the app. Its passes are not known.
`--pinned` gives the server the first half of the cores, and the device the others, as if they were two machines.

For each kind of question, line and temperature there are, over all answers of a way: tokens for each pass of the
server, those over the question included; tokens a second, the median of the answers; and processor seconds of the
server for 1,000 tokens. Answers that are not the plain one are counted. Nothing else should run.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import shlex
import statistics
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
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
from benchmarks.service import Running, Server, passes
from drafter.runtime import Drafter
from drafter.shelf import Drafters
from storage import Store
from storage.database import MEMORY
from tests.support.conversing import ask, until
from tests.support.emulator import Emulator, read_profiles

TALK = DATA / "talk.jsonl"
EDIT = "Rename the function `{name}` to `{name}_v2`, and show the whole code.\n\n```python\n{code}```"
WARM_UP = "Count from one to thirty in words."
LOOPBACK = "loopback"
CORES = sorted(os.sched_getaffinity(0))
Row = dict[str, object]
Served = tuple[str, int, str | None]
"""The address of a server, its process id, and the token if it is Outrider's."""
WAYS = ("plain", "lookups", "auto", "edge", "chain 4", "chain 8", "tree 16")


@dataclass
class Figures:
    """The answers of one way."""

    tokens: int = 0
    passes: int | None = None
    """Of the server, if known."""
    cpu: float = 0.0
    """Processor seconds of the server."""
    rates: list[float] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)


def settings_of(way: str, most: int, temperature: float) -> Settings:
    """The settings of a way. `local` alone lets the model draft, and not answer."""
    settings = Settings(max_tokens=most, temperature=temperature, seed=1, local="local")
    shape, _, size = way.partition(" ")
    if way in ("plain", "lookups"):
        # As one that stands in, a model on this device has the server asked in tokens, and told whether to draft.
        return settings.replaced({"mode": "hosted", "offline": "local"}, way)
    if way not in WAYS and shape not in ("chain", "tree"):
        return settings
    if not size:
        return settings.replaced({"mode": way}, way)
    nodes = int(size)
    depth, breadth = (nodes, 1) if shape == "chain" else (8, 8)
    return settings.replaced({"mode": "edge", "pace": "fixed", "depth": depth, "breadth": breadth, "nodes": nodes}, way)


async def measure(arguments: argparse.Namespace, kind: str, questions: Sequence[str]) -> AsyncIterator[Row]:
    """The rows of one kind of question."""
    others = dict(other.split("=", 1) for other in arguments.other)
    with tempfile.TemporaryDirectory() as work:
        for line, temperature in itertools.product(arguments.line, arguments.temperature):
            with ExitStack() as stack:
                os.sched_setaffinity(0, CORES[: len(CORES) // 2] if arguments.pinned else CORES)
                tokens = {way: f"the-token-of-way-number-{number:02}" for number, way in enumerate(arguments.ways)}
                (file := Path(work) / "tokens").write_text("\n".join(tokens.values()))
                ours = Run(arguments.target, Path(work) / "target").serve("--no-drafter", "--token-file", str(file))
                server = stack.enter_context(ours)
                servers = {way: (server.url, server.process, tokens.get(way)) for way in arguments.ways}
                for way, command in others.items():
                    running = stack.enter_context(Running(Server(way, tuple(shlex.split(command)))))
                    servers[way] = running.url, running.process, None
                os.sched_setaffinity(0, CORES[len(CORES) // 2 :] if arguments.pinned else CORES)
                found = {way: Figures() for way in servers}
                async with opened(arguments, servers, line, temperature) as assistants:
                    for question in questions:
                        for way, assistant in assistants.items():
                            await answered(assistant, question, found[way], *servers[way])
                for way, figures in found.items():
                    yield row(kind, line, temperature, way, figures, found["plain"].texts)


@asynccontextmanager
async def opened(
    arguments: argparse.Namespace, servers: Mapping[str, Served], line: str, temperature: float
) -> AsyncIterator[dict[str, Assistant]]:
    """An assistant for each way, on the same line, with the same local model, after a first answer."""
    local, drafters = LocalModel("local", arguments.local), Drafters(Drafter.load(DRAFTER))
    absent = LocalModel("none", Path("no model is here"))  # It would read along, and take time from the server.
    async with AsyncExitStack() as stack:
        assistants = {}
        for way, (url, _, token) in servers.items():
            address = url
            if line != LOOPBACK:
                emulator = Emulator(read_profiles()[line], "127.0.0.1", int(url.rpartition(":")[2]))
                address = (await stack.enter_async_context(emulator)).url
            store = stack.enter_context(Store.open(MEMORY))
            options = Options(
                drafters,
                AddressSource(address, token),
                settings_of(way, arguments.tokens, temperature),
                draft=way != "plain" and token is not None,
                stand_in=lambda _, here=absent if way in ("plain", "lookups") else local: here,
                texts=Path(stack.enter_context(tempfile.TemporaryDirectory())),
            )
            assistants[way] = await stack.enter_async_context(Assistant(store, options))
        await warm(assistants, local)
        yield assistants


async def warm(assistants: Mapping[str, Assistant], local: LocalModel) -> None:
    """Have each way answer once, and the local model run."""
    for way, assistant in assistants.items():
        await ask(assistant, WARM_UP)
        if way.startswith(("edge", "chain", "tree")):
            await until(lambda: local.process_id is not None)
            await ask(assistant, WARM_UP)


async def answered(
    assistant: Assistant, question: str, figures: Figures, url: str, server: int, token: str | None
) -> None:
    """Ask a question and add its figures."""
    before, passed = cpu_seconds(server), 0 if token is None else passes(url, token)
    heard = await ask(assistant, question)
    figures.passes = None if token is None else (figures.passes or 0) + passes(url, token) - passed
    if heard.ended is None:
        raise RuntimeError(str(heard.failed))
    stats = heard.done.stats
    figures.cpu += cpu_seconds(server) - before
    tokens = stats.verified + (stats.streamed or 0)
    figures.tokens += tokens
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
        "tau": None if figures.passes is None else round(figures.tokens / max(1, figures.passes), 2),
        "tokens/s": round(statistics.median(figures.rates), 1) if figures.rates else None,
        "server's CPU s per 1,000": round(1000 * figures.cpu / max(1, figures.tokens), 1),
        "other text": differ,
    }


async def main(arguments: argparse.Namespace) -> None:
    tasks = [] if arguments.tasks is None else read_tasks(arguments.tasks)
    kinds = {
        "code": [task.question for task in tasks],
        "edits": [EDIT.format(name=one.entry_point, code=one.prompt + one.canonical_solution) for one in tasks],
        "talk": [question for entry in read_prompts(TALK) for question in entry.turns],
    }
    rows: list[Row] = []
    for kind in arguments.kinds:
        async for one in measure(arguments, kind, kinds[kind][: arguments.limit]):
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
    parser.add_argument("--kinds", nargs="+", default=["code", "talk"])
    parser.add_argument("--ways", nargs="+", default=list(WAYS))
    parser.add_argument("--other", nargs="+", default=[], metavar="NAME=COMMAND")
    parser.add_argument("--pinned", action="store_true")
    parser.add_argument("--temperature", type=float, nargs="+", default=[0.0])
    parser.add_argument("--tokens", type=int, default=80)
    parser.add_argument("--out", type=Path, required=True)
    asyncio.run(main(parser.parse_args()))
