"""The gateway and real clients on a line that fails at random: nothing may be lost, doubled or falsely marked.

    python -m benchmarks.gateway [--runs N] [--seed N] [--clients N] [--prompts FILE] [--max-tokens N]
        [--target DIR] [--moa DIR] [--json OUT]

In each run up to three clients stream one answer each through one gateway, at the same time: OpenAI's own client for
Python, curl, and httpx. Between the gateway and two verifiers is a proxy that delays each request for tokens, and lets
the line go down in the middle of an answer, for a time: refused, silent, half-open, a login page, a bad gateway. Then
the line is back.

What each client received must be one piece: each span begins where the one before ended, it is the text that the
gateway says it has sent, and what is marked as verified is what the model says by itself, which the gateway was asked
for before, on a line that works. When the line is back, the model must have checked each answer, and its own must be
the one that it gives by itself. The exit code is 1 if anything was wrong.

For each client whose answer the outage met, the seconds are measured from its beginning to the next word: the first
that the small model writes. Of several clients, only one meets the outage at its beginning; the others meet it with
their next request. A line that is silent is noticed only when an answer is overdue, so those are apart.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from app.cli.machine import machine
from app.prompts import read_prompts
from benchmarks.acceptance import DRAFTER, PROMPTS, TARGET
from benchmarks.replicas import Replicas
from tests.support.fault_proxy import Exchange, Fault, FaultProxy
from tests.support.faults import LOGIN, hushed, late, page, refused, silence
from tests.support.gateways import CHAT, GatewayProcess, Streamed, text_of

DELAY_SECONDS = (0.02, 0.12)
"""What the line takes for each request for tokens."""
OUTAGE_SECONDS = (0.05, 2.0)
KINDS: dict[str, Fault] = {
    "refused": refused,
    "portal": LOGIN,
    "502": page("502 Bad Gateway", "text/html", b"Bad gateway"),
    "silent": silence,
    "half-open": hushed,
}
SILENT = ("silent", "half-open")
"""Outages that break no connection."""
BOUND_SECONDS = 90.0
"""Most seconds of one answer, and of one check afterwards."""


# ---- clients ---------------------------------------------------------------------------------------------------------

Chunks = AsyncIterator[str]
"""Lines of a stream of server-sent events."""


async def with_httpx(url: str, body: dict[str, Any]) -> Chunks:
    opened = httpx.AsyncClient(base_url=url, timeout=BOUND_SECONDS, trust_env=False)
    async with opened as client, client.stream("POST", CHAT, json=body) as response:
        async for line in response.aiter_lines():
            yield line


async def with_curl(url: str, body: dict[str, Any]) -> Chunks:
    command = ["curl", "-sSN", "--noproxy", "*", url + CHAT, "-H", "Content-Type: application/json", "-d", "@-"]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(json.dumps(body).encode())
    process.stdin.close()
    try:
        async for line in process.stdout:
            yield line.decode().rstrip("\n")
    except BaseException:
        process.kill()
        raise
    finally:
        await process.wait()


async def with_openai(url: str, body: dict[str, Any]) -> Chunks:
    import openai

    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        try:
            async for chunk in await client.chat.completions.create(**body):
                yield f"data: {chunk.model_dump_json()}"
        except openai.APIError as error:
            yield "data: " + json.dumps({"error": {"message": str(error)}})
        else:
            yield "data: [DONE]"


CLIENTS: dict[str, Callable[[str, dict[str, Any]], Chunks]] = {
    "openai": with_openai,
    "curl": with_curl,
    "httpx": with_httpx,
}


# ---- the line --------------------------------------------------------------------------------------------------------


@dataclass
class Outage:
    """One outage, which begins in the middle of an answer and ends by itself."""

    kind: str
    seconds: float
    rounds: int
    """Requests for tokens that are answered before it."""
    count: int
    """Bytes of a stream that are passed on before it."""
    begun: float | None = None
    over: asyncio.Event = field(default_factory=asyncio.Event)
    healing: asyncio.Task[None] | None = None

    def plan(self, proxy: FaultProxy, rng: random.Random) -> None:
        """Have it strike."""
        first = proxy.asked

        async def pass_on(exchange: Exchange) -> None:
            stream = b"/v1/streams" in exchange.head.partition(b"\r\n")[0]
            if self.begun is None and (stream or proxy.asked - first > self.rounds):
                if stream:
                    await exchange.relay(self.count)
                self.begun = time.perf_counter()
                proxy.line = KINDS[self.kind]
                self.healing = asyncio.create_task(self._heal(proxy))
                if self.kind not in SILENT and exchange.begun:
                    exchange.reset()
                else:
                    await KINDS[self.kind](exchange)
                return
            proxy.at(0, pass_on)
            await late(rng.uniform(*DELAY_SECONDS))(exchange)

        proxy.at(0, pass_on)

    async def _heal(self, proxy: FaultProxy) -> None:
        await asyncio.sleep(self.seconds)
        await proxy.heal()
        self.over.set()

    async def end(self, proxy: FaultProxy) -> None:
        """Have the line work again, whether it has struck or not."""
        proxy.plan.clear()
        if self.healing is not None:
            await self.healing
        await proxy.heal()


# ---- runs ------------------------------------------------------------------------------------------------------------


@dataclass
class Heard:
    """What one client received, and when."""

    client: str
    question: str
    read: Streamed = field(default_factory=Streamed)
    times: list[tuple[float, str]] = field(default_factory=list)
    """When each piece of text came, with its source."""
    begun: float = 0.0
    ended: float = 0.0

    async def listen(self, url: str, most: int) -> None:
        """Ask, and read to the end."""
        body = {
            "model": "outrider",
            "messages": [{"role": "user", "content": self.question}],
            "temperature": 0,
            "max_tokens": most,
            "stream": True,
        }
        self.begun = time.perf_counter()
        async with asyncio.timeout(BOUND_SECONDS), aclosing(CLIENTS[self.client](url, body)) as lines:  # type: ignore[type-var]
            async for line in lines:
                chunk = self.read.take(line)
                if chunk is not None and text_of(chunk):
                    self.times.append((time.perf_counter(), chunk["outrider"]["source"]))
        self.ended = time.perf_counter()

    def wait(self, cut: float | None) -> float | None:
        """Seconds from the cut to the next drafted word; None: it did not meet this answer."""
        if cut is None or not self.begun <= cut <= self.ended:
            return None
        return next((at - cut for at, source in self.times if at >= cut and source == "drafted"), None)


class Clients:
    """Three clients of one gateway, and what the model says by itself."""

    def __init__(self, process: GatewayProcess, proxy: FaultProxy, most: int) -> None:
        self.process, self.proxy, self.most = process, proxy, most
        self.own: dict[str, str] = {}

    async def run(self, questions: Sequence[str], seed: int) -> dict[str, Any]:
        """One run, as a row. `violations` in it is empty if all is right."""
        rng = random.Random(seed)
        async with self.process.client() as client:
            for question in questions:
                if question not in self.own:
                    self.own[question] = await self._own(client, question)
            outage = Outage(
                rng.choice(list(KINDS)), rng.uniform(*OUTAGE_SECONDS), rng.randrange(1, 6), int(10 ** rng.uniform(1, 3))
            )
            outage.plan(self.proxy, rng)
            heard = [Heard(name, question) for name, question in zip(CLIENTS, questions)]
            found = []
            for one, failed in zip(heard, await self._listen(heard), strict=True):
                found += [f"{one.client}: {failed!r}"] if failed is not None else []
            await outage.end(self.proxy)
            states = []
            for one in heard:
                state, wrong = await self._examine(client, one)
                states.append(state)
                found += [f"{one.client}: {said}" for said in wrong]
        waits = [wait for one in heard if (wait := one.wait(outage.begun)) is not None]
        sources = [source for one in heard for source in one.read.sources]
        return {
            "seed": seed,
            "outage": outage.kind if outage.begun is not None else None,
            "seconds": round(outage.seconds, 3),
            "answers": len(heard),
            "characters": len(sources),
            "drafted": sources.count("drafted"),
            "states": states,
            "waits": [round(wait, 4) for wait in waits],
            "violations": found,
        }

    async def _listen(self, heard: Sequence[Heard]) -> list[BaseException | None]:
        work = [one.listen(self.process.url, self.most) for one in heard]
        return await asyncio.gather(*work, return_exceptions=True)

    async def _own(self, client: httpx.AsyncClient, question: str) -> str:
        """What the model says by itself. Raises `RuntimeError` if the line was down although nothing was planned."""
        for _ in range(20):
            body = {"messages": [{"role": "user", "content": question}], "temperature": 0, "max_tokens": self.most}
            told = (await client.post(CHAT, json=body)).json()
            if told.get("outrider", {}).get("state") == "checked":
                text: str = told["choices"][0]["message"]["content"]
                return text
            await asyncio.sleep(0.5)
        raise RuntimeError(f"the model gives no answer on a line that works: {told}")

    async def _examine(self, client: httpx.AsyncClient, one: Heard) -> tuple[str, list[str]]:
        """What became of an answer, and what is wrong with it."""
        read, own, wrong = one.read, self.own[one.question], []
        if read.error is not None or not read.ended or not read.chunks:
            return "failed", [f"it did not end: {read.error}"]
        at = 0
        for chunk in read.chunks:
            if text := text_of(chunk):
                (span,) = chunk["outrider"]["spans"]
                if (span["start"], span["end"]) != (at, at + len(text)):
                    wrong.append(f"at {at} came the characters {span['start']} to {span['end']}")
                at = span["end"]
        false = [
            at for at, source in enumerate(read.sources) if source == "verified" and read.text[at] != own[at : at + 1]
        ]
        if false:
            wrong.append(f"character {false[0]} is marked as verified and is not the model's")
        report: dict[str, Any] = {}
        begun = time.monotonic()
        while report.get("state") in (None, "writing", "waiting") and time.monotonic() < begun + BOUND_SECONDS:
            report = (await client.get(read.marks["answer"])).json()
            await asyncio.sleep(0.05)
        if report["text"] != read.text:
            wrong.append(f"received {read.text!r}, sent {report['text']!r}")
        if report["state"] not in ("checked", "replaced") or report["checked_text"] != own:
            wrong.append(f"it ended as {report['state']}, with {report['checked_text']!r} for {own!r}")
        elif read.text[: report["checked"]] != own[: report["checked"]]:
            wrong.append("what is told to have held is not the model's")
        return report["state"], wrong


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """All rows together."""
    states = [state for row in rows for state in row["states"]]
    waits = {
        name: sorted(wait for row in rows if (row["outage"] in SILENT) == silent for wait in row["waits"])
        for name, silent in (("broken", False), ("silent", True))
    }
    return {
        "run": "all",
        "runs": len(rows),
        "answers": len(states),
        "characters": sum(row["characters"] for row in rows),
        "drafted": sum(row["drafted"] for row in rows),
        "checked": states.count("checked"),
        "replaced": states.count("replaced"),
        "violations": sum(len(row["violations"]) for row in rows),
        **{
            f"wait_{name}": {
                "count": len(found),
                "median": round(statistics.median(found), 4),
                "within_100_ms": sum(wait <= 0.1 for wait in found),
                "longest": found[-1],
            }
            for name, found in waits.items()
            if found
        },
    }


async def measure(
    questions: Sequence[str], seeds: range, count: int, most: int, target: str, drafter: Path
) -> list[dict[str, Any]]:
    """A row for each seed, and one for all of them together."""
    rows = []
    async with Replicas(target, str(drafter), 2) as replicas:
        await replicas.ready()
        with tempfile.TemporaryDirectory(prefix="outrider-gateway-") as folder:
            async with FaultProxy(replicas.ports) as proxy:
                process = GatewayProcess(Path(folder), drafter, proxy.url)
                async with process:
                    clients = Clients(process, proxy, most)
                    for run, seed in enumerate(seeds):
                        asked = [questions[(count * run + at) % len(questions)] for at in range(count)]
                        rows.append({"run": run, **await clients.run(asked, seed)})
                        print(json.dumps(rows[-1]), flush=True)
    rows.append(summary(rows))
    print(json.dumps(rows[-1]), flush=True)
    return rows


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command. Exit code 1 if anything was lost, doubled or falsely marked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0, help="seed of the first run; later runs count up")
    parser.add_argument("--clients", type=int, choices=range(1, len(CLIENTS) + 1), default=len(CLIENTS))
    parser.add_argument("--prompts", type=Path, default=PROMPTS)
    parser.add_argument("--max-tokens", type=int, default=96, help="most tokens of an answer")
    parser.add_argument("--target", default=str(TARGET))
    parser.add_argument("--moa", type=Path, default=DRAFTER, metavar="DIR", help="its drafter")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args(argv)
    questions = [prompt.turns[0] for prompt in read_prompts(arguments.prompts)]
    seeds = range(arguments.seed, arguments.seed + arguments.runs)
    work = measure(questions, seeds, arguments.clients, arguments.max_tokens, arguments.target, arguments.moa)
    rows = asyncio.run(work)
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": machine(), "rows": rows}, indent=1) + "\n")
    return 1 if rows[-1]["violations"] else 0


if __name__ == "__main__":
    sys.exit(main())
