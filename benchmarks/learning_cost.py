"""What learning costs the one who chats: processor time, memory, waiting for words, and the change to a new version.

    python -m benchmarks.learning_cost [--requests 200] [--repeats 5] [--json OUT]

The drafter is born of the bundled target, as in `benchmarks.learning`, and learns from answers that the app was given.

- `learning`, `deep`: one `outrider learn`, and one `outrider learn --deep`, as a process of its own, from its start to
  its end
- `chat`: seconds to the first words of an answer, and to its last, over loopback, while another process learns without
  a pause at the low priority of `outrider learn`, a correction or deeply, and while none does. They take turns
- `start`: seconds from the start of the chat screen to its first frame, in the same turns
- `change`: milliseconds that an answer waits at its beginning for the look at the versions, when another correction or
  another graph went live since the answer before, and when none did
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from app.cli.learn import NICENESS
from app.config import BUNDLED_TARGET, Folders, Settings
from app.drafting.learning import Learner
from app.events import Done
from app.remotes.source import AddressSource
from app.reply.assistant import Assistant
from app.reply.learnt import Learnt
from app.reply.routing import Options
from benchmarks.pair import machine_and_pair
from benchmarks.requests import answer_all, born, requests
from benchmarks.served import OWN, Served
from benchmarks.startup import Program, measure
from drafter.runtime import Drafter
from drafter.shelf import Drafters
from drafter.step import Correction
from models.config import GRAPH
from storage import Store

ROOT = Path(__file__).parents[1]
QUESTIONS = 8
"""New questions of each repeat."""


TURNS = {"nobody learns": None, "learning": False, "learning deeply": True}
"""What another process does in a turn: nothing, or learning, deeply or not."""


def costs(home: Path, drafter: Path, *options: str) -> dict[str, float]:
    """What one run of `outrider learn` takes: seconds, seconds of processor time, and MB at its peak."""
    environment = {**os.environ, "OUTRIDER_HOME": str(home), "OUTRIDER_DRAFTER": str(drafter), "PYTHONPATH": str(ROOT)}
    begun = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "app.cli", "learn", *options], env=environment)
    # What the system counts at the end (`ru_maxrss`) begins with the size of the process that started it.
    peak, told = 0, Path(f"/proc/{process.pid}/status")
    while True:
        peak = max([peak, *(int(size) for size in re.findall(r"VmHWM:\s+(\d+)", told.read_text()))])
        ended, status, used = os.wait4(process.pid, os.WNOHANG)  # Of this process alone: others have ended before.
        if ended:
            break
        time.sleep(0.01)
    seconds, process.returncode = time.perf_counter() - begun, os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(process.returncode)
    return {"seconds": seconds, "cpu_seconds": used.ru_utime + used.ru_stime, "peak_mb": peak / 1024}


def learn_on(database: Path, drafter: Path, learnt: Path, *, deep: bool) -> None:
    """Learn without a pause, until this process is stopped."""
    os.nice(NICENESS)
    with Store.open(database) as store:
        while True:
            Learner(store, drafter, learnt).learn(deep=deep)


@contextlib.contextmanager
def learning(deep: bool | None, database: Path, drafter: Path, learnt: Path) -> Iterator[None]:
    """In the block another process learns, `deep` or not; None: there is one that waits."""
    arguments = ["--learn", str(database), str(drafter), str(learnt), *["--deep"] * bool(deep)]
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.learning_cost", *arguments], cwd=ROOT)
    try:
        time.sleep(3.0)
        process.send_signal(signal.SIGSTOP if deep is None else signal.SIGCONT)
        yield
    finally:
        process.kill()
        process.wait()


async def answered(assistant: Assistant, store: Store, question: str) -> tuple[float, float]:
    """Seconds to the first words of the answer and to its end."""
    conversation, begun, first = store.conversations.create("asked").id, time.perf_counter(), 0.0
    async for event in assistant.reply(conversation, question):
        if not first and getattr(event, "text", ""):
            first = time.perf_counter() - begun
        if isinstance(event, Done):
            break
    return first, time.perf_counter() - begun


async def chats(database: Path, drafter: Path, questions: Sequence[str], repeats: int) -> dict[str, Any]:
    """Seconds to the first words and to the end, beside a process that learns and beside none."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in TURNS}
    opened, settings = Drafter.load(drafter), Settings(mode="edge", max_tokens=64)
    with tempfile.TemporaryDirectory() as scratch, Store.open(Path(scratch) / "outrider.db") as store:
        async with Served(str(BUNDLED_TARGET), drafter, None, 0.0) as served:
            source = AddressSource(served.url + OWN)
            async with Assistant(store, Options(Drafters(opened), source, settings, modes=("edge",))) as assistant:
                for number, (name, deep) in enumerate(list(TURNS.items()) * (repeats + 1)):
                    with learning(deep, database, drafter, Path(scratch) / "learnt"):
                        for question in questions:
                            seconds = await answered(assistant, store, question)
                            if number >= len(TURNS):  # The first turns warm up.
                                found[name].append(seconds)
    return {
        name: {"first_words": _spread([one for one, _ in some]), "end": _spread([one for _, one in some])}
        for name, some in found.items()
    }


def starts(database: Path, drafter: Path, repeats: int) -> dict[str, Any]:
    """Seconds to the first frame of the chat, beside a process that learns and beside none."""
    found: dict[str, list[float]] = {name: [] for name in TURNS}
    screen = Program("outrider", (sys.executable, "-m", "app.cli"), quit="\x11", environment=(
        ("PYTHONPATH", str(ROOT)), ("OUTRIDER_MODE", "offline")))  # fmt: skip
    with tempfile.TemporaryDirectory() as scratch:
        for number, (name, deep) in enumerate(list(TURNS.items()) * (repeats + 1)):
            with learning(deep, database, drafter, Path(scratch) / "learnt"):
                seconds = measure(screen, Path(scratch))["frame"]
                if number >= len(TURNS):
                    found[name].append(seconds)
    return {name: _spread(seconds) for name, seconds in found.items()}


def changes(database: Path, drafter: Path, learnt: Path) -> dict[str, Any]:
    """Milliseconds of the look at the versions before an answer."""
    opened, found = Drafter.load(drafter), {"another correction": [], "another graph": [], "none": []}  # type: dict[str, list[float]]
    with Store.open(database) as store:
        learner, looking = Learner(store, drafter, learnt), Learnt(store, learnt)
        version = msgspec.structs.replace(learner.versions.all()[-1], graph=0, graph_sha256="")
        for _ in range(20):
            for name in found:
                if name == "another graph":
                    shutil.copy(drafter / GRAPH, learner.versions.scratch())
                    learner.versions.publish(version, None, learner.versions.folder / ".graph.part")
                elif name == "another correction":
                    learner.versions.publish(version, Correction.none(learner.config))
                begun = time.perf_counter()
                looking.refresh(opened)
                found[name].append(1e3 * (time.perf_counter() - begun))
    return {name: _spread(values) for name, values in found.items()}


def _spread(values: Sequence[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {"p50": statistics.median(ordered), "p95": ordered[int(0.95 * (len(ordered) - 1))], "most": ordered[-1]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, metavar="OUT")
    parser.add_argument("--learn", type=Path, nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--deep", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.learn:
        learn_on(*arguments.learn, deep=arguments.deep)
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch)
        folders, drafter = Folders.locate({"OUTRIDER_HOME": scratch}), home / "drafter"
        database = folders.database
        born(str(BUNDLED_TARGET), drafter)
        database.parent.mkdir(parents=True)
        asked = requests("windows", arguments.requests + QUESTIONS, 0)
        asyncio.run(answer_all(str(BUNDLED_TARGET), drafter, database, asked[QUESTIONS:]))
        took, deep = costs(home, drafter), costs(home, drafter, "--deep")
        with Store.open(database) as store:
            version = Learner(store, drafter, folders.learnt).versions.all()[-1]
        document = {
            "machine": machine_and_pair(),
            "answers": version.answers,
            "tokens": version.tokens,
            "learning": took,
            "deep": deep,
            "change": changes(database, drafter, folders.learnt),
            "chat": asyncio.run(chats(database, drafter, asked[:QUESTIONS], arguments.repeats)),
            "start": starts(database, drafter, arguments.repeats),
        }
    print(json.dumps(document, indent=1))
    if arguments.json:
        arguments.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
