"""More requests than a server can answer: what is admitted, how long it takes, and how soon the rest is refused.

    python -m benchmarks.overload [--seconds 60] [--loads 0.5,1,2] [--clients 16] [--json OUT]

First `--clients` clients ask one question after another, which gives the capacity: answers a second. Then requests
arrive at random moments (a Poisson process), at each of `--loads` times the capacity, whether earlier ones are answered
or not, as those of many people do. All stream 30 tokens through OpenAI's API. The clients run on the same processor.

A row has the admitted answers with their first text and their end (p50, p95, slowest), the refused ones (429) with the
slowest refusal, and those that failed. Fairness: the slowest answer over the median.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from app.config import BUNDLED_DRAFTER, BUNDLED_TARGET
from benchmarks.pair import machine_and_pair
from tests.support.serving import VerifierProcess

PATIENCE_SECONDS = 300.0
TOKENS = 30
QUESTIONS = Path(__file__).parents[1] / "tests" / "data" / "everyday.jsonl"


@dataclass
class Seen:
    """What became of requests; all times in seconds since each was sent."""

    first: list[float] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)
    retry_after: list[int] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


async def ask(client: httpx.AsyncClient, question: str, seen: Seen) -> None:
    """Stream one answer."""
    asked = {"messages": [{"role": "user", "content": question}], "max_tokens": TOKENS, "temperature": 0}
    begun, text, first = time.monotonic(), "", 0.0
    try:
        async with client.stream("POST", "/v1/chat/completions", json={**asked, "stream": True}) as answer:
            if answer.status_code == 429:
                await answer.aread()
                seen.refused.append(time.monotonic() - begun)
                seen.retry_after.append(int(answer.headers["retry-after"]))
                return
            async for piece in answer.aiter_text():
                first = first or time.monotonic() - begun
                text += piece
    except httpx.HTTPError as error:
        seen.failed.append(f"{type(error).__name__}: {error}")
        return
    if answer.status_code == 200 and text.endswith("data: [DONE]\n\n"):
        seen.first.append(first)
        seen.whole.append(time.monotonic() - begun)
    else:
        seen.failed.append(f"{answer.status_code}: {text[-200:]}")


async def capacity(client: httpx.AsyncClient, questions: list[str], clients: int, seconds: float) -> float:
    """Answers a second that so many clients get, who ask one question after another."""
    seen, end, rng = Seen(), time.monotonic() + seconds, random.Random(0)

    async def asker() -> None:
        while time.monotonic() < end:
            await ask(client, rng.choice(questions), seen)

    await asyncio.gather(*(asker() for _ in range(clients)))
    if seen.failed or seen.refused:
        raise SystemExit(f"{len(seen.refused)} refused and failed while nothing was overloaded: {seen.failed[:3]}")
    return len(seen.whole) / seconds


async def loaded(client: httpx.AsyncClient, questions: list[str], rate: float, seconds: float, seed: int) -> Seen:
    """Requests at `rate` a second for so long; returns when the last one has ended."""
    seen, rng, tasks = Seen(), random.Random(seed), list[asyncio.Task[None]]()
    begun, at = time.monotonic(), 0.0
    while (at := at + rng.expovariate(rate)) < seconds:
        await asyncio.sleep(max(0.0, begun + at - time.monotonic()))
        tasks.append(asyncio.create_task(ask(client, rng.choice(questions), seen)))
    await asyncio.gather(*tasks)
    return seen


def row_of(load: float, rate: float, seen: Seen) -> dict[str, Any]:
    def spread(seconds: list[float]) -> list[float]:
        if len(seconds) < 2:
            return [*seconds, *seconds, *seconds]
        cuts = statistics.quantiles(seconds, n=20)
        return [statistics.median(seconds), cuts[18], max(seconds)]

    return {
        "load": load, "rate": rate, "answered": len(seen.whole), "refused": len(seen.refused),
        "failed": len(seen.failed), "first_seconds": spread(seen.first), "whole_seconds": spread(seen.whole),
        "refusal_seconds": spread(seen.refused), "retry_after": spread([float(one) for one in seen.retry_after]),
    }  # fmt: skip


async def measured(loads: list[float], clients: int, seconds: float, options: list[str]) -> dict[str, Any]:
    """One server under each load."""
    questions = [json.loads(line)["prompt"] for line in QUESTIONS.read_text("utf-8").splitlines()]
    with tempfile.TemporaryDirectory() as scratch:
        pair = Path(scratch)
        (pair / "target").symlink_to(BUNDLED_TARGET)
        (pair / "drafter").symlink_to(BUNDLED_DRAFTER)
        with VerifierProcess(pair, options=options) as server:
            limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
            wire: dict[str, Any] = {"timeout": PATIENCE_SECONDS, "trust_env": False, "limits": limits}
            async with httpx.AsyncClient(base_url=server.url, **wire) as client:
                await capacity(client, questions, clients, 3.0)
                most = await capacity(client, questions, clients, seconds / 2)
                print(f"capacity: {most:.1f} answers a second", flush=True)
                rows = []
                for number, load in enumerate(loads):
                    seen = await loaded(client, questions, load * most, seconds, number)
                    rows.append(row_of(load, load * most, seen))
                    print(rows[-1], seen.failed[:3], flush=True)
    return {"capacity": most, "clients": clients, "options": options, "rows": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--loads", default="0.5,1,2")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--serve", nargs="*", default=[], help="more options of `outrider serve`")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    loads = [float(load) for load in given.loads.split(",")]
    found = asyncio.run(measured(loads, given.clients, given.seconds, given.serve))
    if given.json is not None:
        given.json.write_text(json.dumps({"machine": machine_and_pair(), **found}, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
