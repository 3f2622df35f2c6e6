"""Clients of all kinds come and go at a server of the bundled model: is its memory flat, and is every answer right?

    python -m benchmarks.churn [--minutes 30] [--warm-up 5] [--rate 2] [--questions 12] [--seed 1] [--gateway]
                               [--json OUT]

Visits begin at random moments (a Poisson process), `--rate` a second, at most 12 at a time. A visitor is a device
that drafts, a device whose answers are hosted, one that comes again with a second question, or a program that uses
OpenAI's API: whole or streamed, with log-probabilities, several answers, a format or a prediction. Some read slowly,
some hang up in the middle, some are killed, some ask what is refused, some are hostile (benchmarks/hostile.py). The
server keeps 32 sessions, which are all in use after some minutes. With `--gateway`, programs ask `outrider gateway` on
the way to such a server, and the figures are the gateway's; what its small model wrote alone, because the server was
late, is counted and not compared.

Every text must be the one that was given before anybody else was there, and only what a client breaks off itself may
fail. Afterwards, when all clients have gone, nothing may run any more, and no more files may be open than before, but
for a gateway's idle connections to its server.
The kernel's figures are read every ten seconds. The slope of the memory is the median of the slopes between all pairs
of samples after `--warm-up` minutes (Theil and Sen). In it is what was freed in the minute before and not given back
yet. So memory is also read at rest, before the first visit and after the last one, each time when nobody has asked for
longer than a minute. Memory counts as flat if its last minute is at most a tenth above its first one after `--warm-up`;
shorter runs than ten minutes more do not tell.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import random
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx

from app.config import BUNDLED_DRAFTER, BUNDLED_TARGET
from benchmarks.churn_clients import AT_ONCE, Clients, Met
from benchmarks.churn_requests import MOST_TOKENS
from benchmarks.hostile import Attack, resident
from benchmarks.overload import QUESTIONS
from benchmarks.pair import machine_and_pair
from benchmarks.service_ways import drafts_of
from drafter.runtime import Drafter
from models.engines.graphs import GRAPHS
from models.engines.memory_encoder import ArrayEncoder
from models.engines.onnx_engine import OnnxEngine
from models.text.chat_text import ChatText
from models.tree import DraftTree
from remote.verifier import freed_memory
from tests.support.gateways import GatewayProcess
from tests.support.serving import VerifierProcess

SESSIONS, LONGEST = 32, 512
"""Sessions of the server, and tokens of each."""
SAMPLE_SECONDS = 10.0
ASKED = 12
"""Questions that are asked again and again."""
SETTLE_SECONDS = 120.0
"""Time for a server to let go of clients that have left without a word, and of connections that nobody uses."""
REST_SECONDS = 10.0 + freed_memory.SECONDS
"""Time in which a server at rest has given back what it has freed."""
IDLE_CONNECTIONS = 4
"""Connections to its server that an idle gateway may keep: one for each answer that it writes at once."""
GROWN = 4
"""Threads or open files, from the first quarter of the samples to the last, that are a leak and no chance."""
MOST_MEMORY = 1.1
"""Most memory in the last minute, as a multiple of that after the warm-up."""
TELLING_SECONDS = 600.0
"""Least time after the warm-up for memory to tell something."""
GAUGES = ("sessions", "running_sessions", "running_answers", "waiting_rounds", "cached_bytes")


@dataclass(frozen=True)
class Sample:
    """A process at one moment. `at`: seconds since the first visit."""

    at: float
    rss_mb: float
    threads: int
    files: int
    connections: int
    cpu_seconds: float
    sessions: int = 0
    running_sessions: int = 0
    running_answers: int = 0
    waiting_rounds: int = 0
    cached_bytes: int = 0

    @property
    def idle(self) -> bool:
        """Nothing runs, and nothing waits."""
        return not (self.running_sessions or self.running_answers or self.waiting_rounds)


class Watched:
    """A process whose figures are read. `url`: its server; empty: it has no page of metrics."""

    def __init__(self, process: int, url: str = "") -> None:
        self._process, self._url = process, url
        self._begun = time.monotonic()

    def begin(self) -> None:
        self._begun = time.monotonic()

    async def sample(self) -> Sample:
        gauges: dict[str, int] = {}
        if self._url:
            async with httpx.AsyncClient(base_url=self._url, timeout=60, trust_env=False, verify=False) as client:
                page = (await client.get("/metrics")).text
            told = dict(line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#"))
            gauges = {name: int(float(told[f"outrider_{name}"])) for name in GAUGES}
        proc = Path(f"/proc/{self._process}")
        files = list[str]()
        for file in (proc / "fd").iterdir():
            with contextlib.suppress(OSError):
                files.append(os.readlink(file))
        fields = (proc / "stat").read_text().rpartition(")")[2].split()
        return Sample(
            at=time.monotonic() - self._begun,
            rss_mb=resident(self._process) / 1e6,
            threads=int(fields[17]),
            files=len(files),
            connections=sum(file.startswith("socket:") for file in files),
            cpu_seconds=(int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"),
            **gauges,
        )

    async def settled(self, files: int | None = None) -> Sample:
        """A sample when nothing runs, and no more files are open than `files`; the last one if that never comes."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while True:
            await asyncio.sleep(1.0)
            sample = await self.sample()
            if sample.idle and (files is None or sample.files <= files) or time.monotonic() > deadline:
                return sample


def slope(points: Sequence[tuple[float, float]]) -> float:
    """The median of the slopes between all pairs of points."""
    slopes = [(y - x) / (b - a) for (a, x), (b, y) in itertools.combinations(points, 2) if b > a]
    return statistics.median(slopes) if slopes else 0.0


def grown(values: Sequence[int]) -> bool:
    """Whether the last quarter is clearly above the first, also when the fewest clients were there."""
    quarter = max(1, len(values) // 4)
    return min(values[-quarter:]) - min(values[:quarter]) >= GROWN


@contextlib.asynccontextmanager
async def served(gateway: bool) -> AsyncIterator[tuple[str, Watched, VerifierProcess | GatewayProcess]]:
    """The address that clients ask, and the process that is watched."""
    with tempfile.TemporaryDirectory() as scratch:
        pair = Path(scratch) / "pair"
        pair.mkdir()
        (pair / "target").symlink_to(BUNDLED_TARGET)
        (pair / "drafter").symlink_to(BUNDLED_DRAFTER)
        options = ["--max-sessions", str(SESSIONS), "--max-tokens", str(LONGEST)]
        with VerifierProcess(pair, options=options, home=Path(scratch) / "server") as server:
            if not gateway:
                yield server.url, Watched(server.id, server.url), server
                return
            async with GatewayProcess(Path(scratch) / "home", BUNDLED_DRAFTER, server.url) as process:
                yield process.url, Watched(process.process.pid), process


async def churned(
    minutes: float,
    warm_up: float,
    rate: float,
    seed: int,
    *,
    gateway: bool = False,
    asked: int = ASKED,
    rest: float = REST_SECONDS,
) -> dict[str, Any]:
    """One server, and its visitors. `asked`: the number of questions that they choose from. `rest`: seconds without
    them before memory is read at rest."""
    prompts = [json.loads(line)["prompt"] for line in QUESTIONS.read_text("utf-8").splitlines()]
    questions = random.Random(seed).sample(prompts, asked)
    async with served(gateway) as (url, watched, process):
        text = ChatText.load(BUNDLED_DRAFTER)
        clients = Clients(
            url, Attack(process, seed), {} if gateway else await asyncio.to_thread(drafts, questions), text
        )
        await clients.know(questions)
        await asyncio.sleep(rest)
        before = await watched.settled()
        watched.begin()
        samples, rows = list[Sample](), list[dict[str, Any]]()
        visiting = asyncio.create_task(visits(clients, rate, minutes * 60, seed))
        while not visiting.done():
            await asyncio.wait([visiting], timeout=SAMPLE_SECONDS)
            samples.append(await watched.sample())
            if visiting.done() or samples[-1].at >= 60 * (len(rows) + 1):
                rows.append(row_of(len(rows) + 1, samples, clients.met))
                print(rows[-1], flush=True)
        visiting.result()
        await clients.close()
        await asyncio.sleep(rest)
        kept = IDLE_CONNECTIONS if gateway else 0
        after = await watched.settled(before.files + kept)
    return {
        "minutes": minutes, "warm_up": warm_up, "rate": rate, "seed": seed, "gateway": gateway,
        "summary": summary(samples, before, after, clients.met, warm_up * 60, kept),
        "rows": rows,
        "samples": [[round(sample.at, 1), round(sample.rss_mb, 2)] for sample in samples],
        "failures": clients.met.failures[:20],
        "different": clients.met.different[:20],
    }  # fmt: skip


def drafts(questions: Sequence[str]) -> dict[str, list[DraftTree]]:
    """The drafts of a device for each question."""
    text, engine = (
        ChatText.load(BUNDLED_DRAFTER),
        OnnxEngine(BUNDLED_TARGET / GRAPHS[0], ArrayEncoder.load(BUNDLED_DRAFTER)),
    )
    asked = {question: text.render([("user", question)]) for question in questions}
    return drafts_of(engine, Drafter.load(BUNDLED_DRAFTER), asked, MOST_TOKENS)


async def visits(clients: Clients, rate: float, seconds: float, seed: int) -> None:
    """Visits for so long; returns when the last one has ended."""
    places, tasks = asyncio.Semaphore(AT_ONCE), set[asyncio.Task[None]]()
    rng, begun, at = random.Random(seed), time.monotonic(), 0.0

    async def visit(number: int) -> None:
        try:
            await clients.visit(random.Random(f"{seed} {number}"))
        finally:
            places.release()

    for number in itertools.count():
        at += rng.expovariate(rate)
        await asyncio.sleep(max(0.0, begun + at - time.monotonic()))
        await places.acquire()
        if time.monotonic() - begun >= seconds:
            places.release()
            break
        task = asyncio.create_task(visit(number))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)


def row_of(minute: int, samples: Sequence[Sample], met: Met) -> dict[str, Any]:
    """What is known after so many minutes. Figures are the medians of the minute."""
    recent = [sample for sample in samples if sample.at > 60 * (minute - 1)] or samples[-1:]
    figures = {
        name: round(statistics.median(getattr(sample, name) for sample in recent), 2)
        for name in ("rss_mb", "threads", "files", "connections", "sessions", "running_sessions")
    }
    cpu = recent[-1].cpu_seconds - samples[max(0, len(samples) - len(recent) - 1)].cpu_seconds
    return {
        "minute": minute, **figures, "cached_mb": round(recent[-1].cached_bytes / 1e6, 2), "cpu_seconds": round(cpu, 1),
        "answers": met.answers.total(), "left": met.left.total(), "refused": met.refused.total(),
        "failures": len(met.failures), "different": len(met.different),
    }  # fmt: skip


def summary(
    samples: Sequence[Sample], before: Sample, after: Sample, met: Met, warm_up: float, kept: int = 0
) -> dict[str, Any]:
    """The figures of all minutes, and `wrong`: what must not be so, in words. `kept`: files that may stay open."""
    warm = [sample for sample in samples if sample.at >= warm_up] or list(samples[-1:])
    per_second = slope([(sample.at, sample.rss_mb) for sample in warm])
    first = statistics.median(sample.rss_mb for sample in warm[:6])
    last = statistics.median(sample.rss_mb for sample in samples if sample.at > samples[-1].at - 60)
    checks = {
        "a text differs": bool(met.different),
        "an answer failed": bool(met.failures),
        "something runs when all clients have gone": not after.idle,
        "there are more sessions than allowed": max(sample.sessions for sample in samples) > SESSIONS,
        "files stay open": after.files > before.files + kept,
        "open files grow": grown([sample.files for sample in warm]),
        "threads grow": grown([sample.threads for sample in warm]),
        "memory grows": samples[-1].at - warm[0].at >= TELLING_SECONDS and last > MOST_MEMORY * first,
    }
    return {
        "wrong": [words for words, so in checks.items() if so],
        "answers": dict(sorted(met.answers.items())),
        "left": dict(sorted(met.left.items())),
        "refused": dict(sorted(met.refused.items())),
        "alone": met.alone.total(),
        "failures": len(met.failures),
        "different": len(met.different),
        "rss_mb_before": round(before.rss_mb, 1),
        "rss_mb_warm": round(first, 1),
        "rss_mb_end": round(last, 1),
        "rss_mb_after": round(after.rss_mb, 1),
        "rss_mb_per_hour": round(per_second * 3600, 2),
        "cores": round((samples[-1].cpu_seconds - before.cpu_seconds) / samples[-1].at, 2),
        "before": asdict(before),
        "after": asdict(after),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--warm-up", type=float, default=5.0, help="minutes after which memory should be flat")
    parser.add_argument("--rate", type=float, default=2.0, help="visits a second")
    parser.add_argument("--questions", type=int, default=ASKED, help="questions that are asked again and again")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--gateway", action="store_true")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    found = asyncio.run(
        churned(given.minutes, given.warm_up, given.rate, given.seed, gateway=given.gateway, asked=given.questions)
    )
    told = {name: found[name] for name in ("summary", "failures", "different")}
    print(json.dumps(told, indent=1, ensure_ascii=False))
    if given.json is not None:
        given.json.write_text(json.dumps({"machine": machine_and_pair(), **found}, indent=1) + "\n", "utf-8")
    if found["summary"]["wrong"]:
        raise SystemExit(f"Not as it should be: {', '.join(found['summary']['wrong'])}.")


if __name__ == "__main__":
    main()
