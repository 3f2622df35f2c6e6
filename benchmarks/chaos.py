"""Answers on a line that fails at random: outages, cuts, restarts, duplicates. Nothing may be lost or duplicated.

    python -m benchmarks.chaos [--runs N] [--seed N] [--mode MODE] [--prompts FILE] [--max-tokens N]
        [--at-once N] [--stand-in MODEL] [--verifiers N] [--ray] [--json OUT]

Each run opens the app's own assistant on a new database, and asks one to three questions in a conversation, or in each
of `--at-once` conversations, whose answers are then written at the same time. Between it and three
verifiers is a proxy that fails as drawn in `Mix` from the run's seed. Some requests for tokens meet a fault: cut at a
random byte, received but not answered, answered late, twice, out of order, or by a verifier that has dropped the
session. At some requests the line goes down for a while: refused, silent, half-open, a login page, a gateway's error.
At some the verifier is killed: another one answers at once without any state, and the killed one is restarted
meanwhile. Text that the device writes alone is slowed to reading speed, so that the line is back before most answers
are complete. With --stand-in, a model on this device, of any tokenizer, writes in place of the drafter in modes edge
and hosted; in every fifth run it is killed at its first word. With --ray the verifiers are replicas of one server
(`outrider serve --replicas`), and Ray starts them again.

After each run, the verified tokens must equal what the target says by itself, the database must agree with the events,
and no token may be missing or duplicated (`tests.support.nothing_lost`). A third of the runs samples, with a seed. A
GGUF file does not always say the same by itself: a verifier that takes over computes the rows of a conversation in
larger pieces, and llama.cpp rounds those differently. Each of its verified tokens must be within `ROUNDING` of the one
that the target chooses. There is one line for each run and a summary at the end. The exit code is 1 if anything was
wrong.
The mix of a run depends only on its seed; its timing also depends on the machine, because outages are in seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np

from app.cli.machine import machine
from app.config import ChosenMode, Settings
from app.drafting.prompt import conversation_tokens
from app.events import Done, Drafted, Event, Failed, ModeChanged
from app.prompts import read_prompts
from app.remotes.loopback import LocalModel
from app.remotes.source import AddressSource
from app.reply.assistant import Assistant
from app.reply.routing import Options
from benchmarks.bundled import DRAFTER, PROMPTS, TARGET, write
from benchmarks.replicas import REPLICAS, RayReplicas, Replicas
from drafter.coin import arrivals
from drafter.runtime import Drafter
from drafter.shelf import Drafters
from models.engines.choice import open_model
from models.engines.engine import Engine
from models.files import is_gguf
from models.tree import DraftTree
from remote import VerifierClient
from remote.protocol import Sampling
from storage import Message, Store
from tests.support.fault_proxy import Exchange, Fault, FaultProxy
from tests.support.faults import (
    LOGIN,
    REDIRECT,
    after,
    corrupted,
    cut_after,
    doubled,
    forgotten,
    garbled,
    hushed,
    late,
    page,
    refused,
    reordered,
    reset,
    silence,
    truncated,
    unheard,
    unsent,
)
from tests.support.nothing_lost import target_alone, violations

READING_SECONDS = 0.02
"""Seconds between two tokens that the device writes alone."""
FAULT_CHANCE = 0.35
"""Chance that a request for tokens meets a fault."""
OUTAGES, TURNS = (1, 1, 2), (1, 2, 2, 3)
"""Possible numbers of outages and turns in a run, each equally likely."""
OUTAGE_SECONDS = (0.05, 1.5)
MOST_ASKS = 60
"""Requests for tokens that faults are planned for. Later ones work."""
SAMPLES, RESTARTS = 0.33, 0.4
"""Chances that a run samples, and that it has a restart."""
ROUNDING = 1.0
"""How far the logit of a token may be below the best one, so that llama.cpp may have rounded the other way. Logits of
the same row differ by up to 0.5 between pieces of different sizes (Qwen2.5-Coder-1.5B, Q4_K_M)."""
CHAIN = 32
"""Tokens of an answer that are judged in one forward."""
BOUND_SECONDS = 60.0
"""Most seconds of one answer, which must end whatever happens."""

FAULTS: dict[str, Fault] = {
    "unsent": unsent,
    "unheard": unheard,
    "reset": reset,
    "garbled": garbled,
    "truncated": truncated,
    "corrupted": corrupted,
    "doubled": doubled,
    "reordered": reordered,
    "forgotten": forgotten,
}
OUTAGE_KINDS: dict[str, Fault] = {
    "refused": refused,
    "silent": silence,
    "half-open": hushed,
    "portal": LOGIN,
    "redirect": REDIRECT,
    "502": page("502 Bad Gateway", "text/html", b"Bad gateway"),
    "503": page("503 Service Unavailable", "text/html", b"In maintenance"),
}


# ---- what goes wrong -------------------------------------------------------------------------------------------------


@dataclass
class Mix:
    """The faults of one run, by the request for tokens that they strike."""

    temperature: float
    turns: int
    faults: dict[int, tuple[str, Fault]] = field(default_factory=dict)
    healing: set[asyncio.Task[None]] = field(default_factory=set)


def draw(seed: int, mode: ChosenMode, replicas: Replicas | RayReplicas) -> Mix:
    """The mix of a seed."""
    rng = random.Random(seed)
    mix = Mix(0.7 if rng.random() < SAMPLES else 0.0, rng.choice(TURNS))
    # If the verifier streams, a request is for a whole answer, so it breaks in the middle.
    streams = mode == "hosted"
    span = 3 if streams else 6

    def bytes_before() -> int:
        return int(10 ** rng.uniform(0, 3.5))

    for ask in range(MOST_ASKS):
        if rng.random() < FAULT_CHANCE:
            name = rng.choice([*FAULTS, "cut", "late"])
            fault = FAULTS.get(name) or (cut_after(bytes_before()) if name == "cut" else late(rng.uniform(0.02, 0.6)))
            mix.faults[ask] = name, fault
    for _ in range(rng.choice(OUTAGES)):
        name = rng.choice(list(OUTAGE_KINDS))
        fault = outage(OUTAGE_KINDS[name], rng.uniform(*OUTAGE_SECONDS), mix.healing)
        mix.faults[rng.randrange(span)] = name, after(bytes_before(), fault) if streams else fault
    if rng.random() < RESTARTS:
        before = bytes_before() if streams or rng.random() < 0.5 else None
        mix.faults[rng.randrange(span)] = "restart", restart(replicas, before)
    return mix


def outage(fault: Fault, seconds: float, healing: set[asyncio.Task[None]]) -> Fault:
    """Keep the fault for this many seconds."""

    async def heal(proxy: FaultProxy) -> None:
        await asyncio.sleep(seconds)
        await proxy.heal()

    async def begin(exchange: Exchange) -> None:
        exchange.proxy.line = fault
        healing.add(asyncio.create_task(heal(exchange.proxy)))
        await fault(exchange)

    return begin


def restart(replicas: Replicas | RayReplicas, before: int | None) -> Fault:
    """Kill the verifier after this many bytes of its reply, or before the request reaches it if None."""

    async def fault(exchange: Exchange) -> None:
        if before is not None:
            await exchange.relay(before)
        replicas.restart()
        exchange.proxy.verifiers = replicas.ports
        if before is None:
            await exchange.relay()
        else:
            exchange.cut()

    return fault


# ---- runs ------------------------------------------------------------------------------------------------------------


@dataclass
class Chaos:
    """The shared resources of all runs."""

    drafter: Drafter
    replicas: Replicas | RayReplicas
    mode: ChosenMode
    max_tokens: int
    at_once: int = 1
    """Conversations that are answered at the same time."""
    stand_in: LocalModel | None = None
    judge: Engine | None = None
    """The target, in this process, if it is a GGUF file."""
    references: dict[tuple[int, ...], list[int]] = field(default_factory=dict)
    """The target's own answers, by prompt, or by prompt and seed for sampling."""

    async def run(self, questions: Sequence[str], seed: int) -> dict[str, Any]:
        """Ask the first questions in one run and return its row, in which `violations` is empty if nothing was lost."""
        await self.replicas.ready()
        mix, begun = draw(seed, self.mode, self.replicas), time.monotonic()
        settings = Settings(
            mode=self.mode,
            temperature=mix.temperature,
            seed=seed,
            max_tokens=self.max_tokens,
            offline=None if self.stand_in is None else "local",
        )
        row: dict[str, Any] = {"seed": seed, "mode": self.mode, "temperature": mix.temperature}
        heard: list[list[Event]] = []
        threads: list[list[Message]] = []
        """The thread as stored after each answer."""
        found: list[str] = []
        async with AsyncExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="outrider-chaos-"))
            store = stack.enter_context(Store.open(Path(folder) / "outrider.db"))
            proxy = await stack.enter_async_context(FaultProxy(self.replicas.ports))
            source = AddressSource(proxy.url)
            source.parallel = self.at_once
            stand_in = None if self.stand_in is None else partial(_always, self.stand_in)
            options = Options(Drafters(self.drafter), source, settings, stand_in=stand_in)
            assistant = await stack.enter_async_context(Assistant(store, options))
            while assistant.status().mode == "warming":
                await asyncio.sleep(0.01)
            proxy.plan = {ask: fault for ask, (_, fault) in mix.faults.items()}

            async def converse(asked: Sequence[str]) -> None:
                conversation = store.conversations.create("chaos").id
                for question in asked:
                    events: list[Event] = []
                    try:
                        await self._listen(assistant, conversation, question, events, kills=seed % 5 == 0)
                    except TimeoutError:
                        found.append(f"it did not end within {BOUND_SECONDS:.0f} s")
                    heard.append(events)
                    threads.append(store.branches.thread(conversation))
                told = [message.text for message in store.branches.thread(conversation) if message.role == "user"]
                if told != list(asked) or len(store.messages.of(conversation)) != 2 * len(asked):
                    found.append(f"the conversation has {len(told)} questions instead of {len(asked)}, or others")

            orders = ([*questions[at:], *questions[:at]] for at in range(self.at_once))
            await asyncio.gather(*(converse(order[: mix.turns]) for order in orders))
            struck = Counter(mix.faults[ask][0] for ask in proxy.struck)
            for task in mix.healing:
                task.cancel()
            await asyncio.gather(*mix.healing, return_exceptions=True)
        for events, thread in zip(heard, threads):  # No fault is active any more.
            found += await self._examine(thread, events, settings)
        every = [event for events in heard for event in events]
        done = [token for event in every if isinstance(event, Done) for token in event.provenance]
        return row | {
            "turns": len(heard),
            "tokens": len(done),
            "verified": done.count(True),
            "failed": sum(isinstance(event, Failed) for event in every),
            "offline": sum(isinstance(event, ModeChanged) and event.mode == "offline" for event in every),
            "faults": dict(sorted(struck.items())),
            "seconds": round(time.monotonic() - begun, 2),
            "violations": found,
        }

    async def _listen(
        self, assistant: Assistant, conversation: str, question: str, events: list[Event], *, kills: bool
    ) -> None:
        """Listen to an answer until its end. Raises `TimeoutError`.

        `kills`: kill the model on this device at its first word.
        """
        alone = False
        async with asyncio.timeout(BOUND_SECONDS), aclosing(assistant.reply(conversation, question)) as reply:
            async for event in reply:
                events.append(event)
                if isinstance(event, ModeChanged):
                    alone = event.mode == "offline"
                elif isinstance(event, Drafted) and alone:
                    if kills and self.stand_in is not None and (process := self.stand_in.process_id) is not None:
                        os.kill(process, signal.SIGKILL)
                        kills = False
                    await asyncio.sleep(READING_SECONDS)

    async def _examine(self, thread: Sequence[Message], events: Sequence[Event], settings: Settings) -> list[str]:
        text = self.drafter.text
        prompt = conversation_tokens(text, thread[:-1])
        sampling = Sampling(temperature=settings.temperature, seed=settings.seed or 0)
        own, strange = None, list[str]()
        if self.judge is None:
            own = await self._reference(prompt, sampling, settings.max_tokens)
        else:
            verified = thread[-1].tokens[: list(thread[-1].provenance).count(True)]
            strange = not_chosen(self.judge, prompt, verified, sampling)
        failures = [event.message for event in events if isinstance(event, Failed)]
        # If somebody may continue alone, there is always an answer.
        found = (
            []
            if settings.mode != "auto" and self.stand_in is None
            else [f"it failed: {message}" for message in failures]
        )
        return found + strange + violations(events, thread[-1], own, text)

    async def _reference(self, prompt: Sequence[int], sampling: Sampling, most: int) -> list[int]:
        key = (*prompt, sampling.seed if sampling.temperature else -1)
        if key not in self.references:
            async with VerifierClient(f"http://127.0.0.1:{self.replicas.ports[0]}") as client:
                own = await target_alone(client, prompt, sampling, most, self.drafter.text.stop_tokens)
            self.references[key] = own
        return self.references[key]


def not_chosen(engine: Engine, prompt: Sequence[int], verified: Sequence[int], sampling: Sampling) -> list[str]:
    """The verified tokens that the target does not choose after those before them, one sentence each."""
    context, found = engine.context(), list[str]()
    context.assign(0, prompt)
    every = np.arange(engine.vocabulary)
    for start in range(0, len(verified), CHAIN):
        piece = verified[start : start + CHAIN]
        tree = DraftTree.chain(piece[:-1])
        for at, (logits, token) in enumerate(zip(engine.verify(context, tree), piece), start):
            scores = logits.astype(np.float64)
            if sampling.temperature:  # The race of `drafter.coin`, on a logarithmic scale.
                scores -= sampling.temperature * np.log(arrivals(sampling.seed, len(prompt) + at, every))
            if (short := scores.max() - scores[token]) > ROUNDING:
                found.append(f"verified token {at} of {len(verified)} is {short:.2f} below the target's own")
        context.commit(tree, range(len(tree)), piece[-1])
    context.release()
    return found


async def measure(
    replicas: Replicas | RayReplicas,
    questions: Sequence[str],
    drafter: Drafter,
    mode: ChosenMode,
    most: int,
    seeds: range,
    stand_in: Path | None = None,
    judge: Engine | None = None,
    at_once: int = 1,
) -> list[dict[str, Any]]:
    """A row for each seed, and one for all of them together."""
    rows = []
    async with replicas, AsyncExitStack() as stack:
        chaos = Chaos(drafter, replicas, mode, most, at_once, judge=judge)
        if stand_in is not None:
            chaos.stand_in = LocalModel("local", stand_in)
            chaos.stand_in.shared = True
            stack.push_async_callback(chaos.stand_in.close)
        for run, seed in enumerate(seeds):
            asked = [questions[(max(TURNS) * run + turn) % len(questions)] for turn in range(max(TURNS))]
            rows.append({"run": run, **await chaos.run(asked, seed)})
            print(json.dumps(rows[-1]), flush=True)
    total: Counter[str] = Counter()
    for row in rows:
        total.update({name: row[name] for name in ("turns", "tokens", "verified", "failed", "offline", "seconds")})
    faults = sum((Counter(row["faults"]) for row in rows), Counter[str]())
    wrong = sum(len(row["violations"]) for row in rows)
    rows.append({"run": "all", "mode": mode, **total, "faults": dict(sorted(faults.items())), "violations": wrong})
    rows[-1]["seconds"] = round(total["seconds"], 2)
    print(json.dumps(rows[-1]), flush=True)
    return rows


def _always(source: LocalModel, name: str | None) -> LocalModel:
    return source


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command. Exit code 1 if anything was lost or duplicated."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    modes = [mode for mode in get_args(ChosenMode) if mode != "offline"]
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0, help="seed of the first run; later runs count up")
    parser.add_argument("--mode", choices=modes, default="auto")
    parser.add_argument("--at-once", type=int, default=1, help="conversations that are answered at the same time")
    parser.add_argument("--prompts", type=Path, default=PROMPTS)
    parser.add_argument("--max-tokens", type=int, default=96, help="most tokens of an answer")
    parser.add_argument("--target", default=str(TARGET))
    parser.add_argument("--moa", type=Path, default=DRAFTER, metavar="DIR", help="its drafter")
    parser.add_argument("--stand-in", type=Path, metavar="MODEL", help="a GGUF file, or a folder")
    parser.add_argument("--verifiers", type=int, default=REPLICAS, help="processes; two at least")
    parser.add_argument("--ray", action="store_true", help="as replicas behind Ray Serve's proxy")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args(argv)
    questions = [prompt.turns[0] for prompt in read_prompts(arguments.prompts)]
    seeds = range(arguments.seed, arguments.seed + arguments.runs)
    several = RayReplicas if arguments.ray else Replicas
    replicas, drafter = several(arguments.target, str(arguments.moa), arguments.verifiers), Drafter.load(arguments.moa)
    drafter.prompt = None  # The reference is the target's answer to the conversation as it is.
    mode, most, stand_in = arguments.mode, arguments.max_tokens, arguments.stand_in
    judge = open_model(arguments.target).engine if is_gguf(arguments.target) else None
    rows = asyncio.run(measure(replicas, questions, drafter, mode, most, seeds, stand_in, judge, arguments.at_once))
    write(arguments.json, rows, machine())
    return 1 if rows[-1]["violations"] else 0


if __name__ == "__main__":
    sys.exit(main())
