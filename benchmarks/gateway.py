"""The gateway and real clients on a line that fails at random: nothing may be lost, doubled or falsely marked.

    python -m benchmarks.gateway [--python PYTHON --node-modules DIR] [--runs N] [--seed N] [--clients N]
        [--prompts FILE] [--max-tokens N] [--target DIR] [--moa DIR] [--json OUT]

In each run up to three clients stream one answer each through one gateway, at the same time: OpenAI's client for
Python, OpenAI's client for JavaScript, and `llm`. `--python` is an interpreter that has `openai` and `llm`,
`--node-modules` a folder with `openai`. Each client is a program in `benchmarks/client_programs/`, which is started
once, before the first run. Without these two options, this program's own client of OpenAI, curl and httpx take their
places.

Between the gateway and two verifiers is a proxy that delays each request for tokens, and lets the line go down in the
middle of the answers, for a time: refused, silent, half-open, a login page, a bad gateway. It does so when the clients
have a number of characters that is drawn from all that the model would say. The outage meets all clients at the same
moment: every connection ends, or falls silent. Then the line is back.

What each client received must be one piece: each span begins where the one before ended, it is the text that the
gateway says it has sent, and what is marked as verified is what the model says by itself, which the gateway was asked
for before, on a line that works. `llm` passes no marks on; so the gateway says afterwards which of its text was marked
as drafted. When the line is back, the model must have checked each answer, and its own must be the one that it gives by
itself. The exit code is 1 if anything was wrong.

For each client whose answer had begun, the seconds are measured from the outage's beginning to the next word that
comes, at the client: the first that the small model writes. A line that is silent is noticed only when an answer is
overdue, so those are apart. So are clients that had asked, and had no word yet.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from app.cli.machine import machine
from app.gateway.answers import PATH
from app.prompts import read_prompts
from benchmarks.acceptance import DRAFTER, PROMPTS, TARGET
from benchmarks.gateway_clients import BOUND_SECONDS, PROGRAMS, Program, StandIn, Told, opened
from benchmarks.gateway_outage import KINDS, OUTAGE_SECONDS, SILENT, Outage
from benchmarks.replicas import Replicas
from tests.support.fault_proxy import FaultProxy
from tests.support.gateways import CHAT, GatewayProcess, text_of

# ---- runs ------------------------------------------------------------------------------------------------------------


@dataclass
class Heard:
    """What one client received, and when."""

    client: StandIn | Program
    question: str
    chunks: list[dict[str, Any]] = field(default_factory=list)
    """Those that came, for a client that passes them on."""
    pieces: list[tuple[float, str]] = field(default_factory=list)
    """Each piece of text, with the time at which it came."""
    id: str = ""
    error: str | None = "it did not end"
    drafted: list[tuple[int, int]] = field(default_factory=list)
    """Ranges of characters that were marked as drafted when they came."""
    begun: float = 0.0
    ended: float = 0.0

    @property
    def text(self) -> str:
        return "".join(piece for _, piece in self.pieces)

    @property
    def sources(self) -> list[str]:
        """Who stood behind each character when it came."""
        sources = ["verified"] * len(self.text)
        for start, end in self.drafted:
            sources[start:end] = ["drafted"] * (end - start)
        return sources

    async def listen(self, most: int, came: Callable[[], None] = lambda: None) -> None:
        """Ask, and read to the end. `came` is called after each piece."""
        body = {
            "model": "outrider",
            "messages": [{"role": "user", "content": self.question}],
            "temperature": 0,
            "max_tokens": most,
        }
        self.begun = time.perf_counter()
        async with asyncio.timeout(BOUND_SECONDS), aclosing(self.client.pieces(body)) as told:
            async for at, one in told:
                self._take(at, one)
                came()
        self.ended = time.perf_counter()

    def _take(self, at: float, told: Told) -> None:
        if "error" in told:
            self.error = str(told["error"])
        elif "done" in told:
            self.error, self.id = None, told.get("id", self.id)
        elif "text" in told:
            self.pieces.append((at, told["text"]))
        else:
            chunk = told["chunk"]
            self.chunks.append(chunk)
            self.id = chunk["id"]
            if text := text_of(chunk):
                if chunk["outrider"]["source"] == "drafted":
                    self.drafted.append((len(self.text), len(self.text) + len(text)))
                self.pieces.append((at, text))

    def misplaced(self) -> list[str]:
        """What is wrong with the places that the chunks say they have."""
        wrong, at = [], 0
        for chunk in self.chunks:
            if text := text_of(chunk):
                (span,) = chunk["outrider"]["spans"]
                if (span["start"], span["end"]) != (at, at + len(text)):
                    wrong.append(f"at {at} came the characters {span['start']} to {span['end']}")
                at = span["end"]
        return wrong

    def wait(self, cut: float | None) -> tuple[bool, float] | None:
        """Seconds from the cut to the next drafted word, and whether a word had come before; None: it met no cut."""
        if cut is None or not self.begun <= cut <= self.ended:
            return None
        length, sources = 0, self.sources
        for at, piece in self.pieces:
            if at >= cut and "drafted" in sources[length : length + len(piece)]:
                return self.pieces[0][0] < cut, at - cut
            length += len(piece)
        return None


class Clients:
    """Clients of one gateway, and what the model says by itself."""

    def __init__(
        self, clients: Sequence[StandIn | Program], process: GatewayProcess, proxy: FaultProxy, most: int
    ) -> None:
        self.clients, self.process, self.proxy, self.most = clients, process, proxy, most
        self.own: dict[str, str] = {}

    async def warm_up(self, question: str) -> None:
        """Have each client ask once, so that no run waits for what a client loads when it is first asked."""
        async with self.process.client() as client:
            await self._own(client, question)
        for one in self.clients:
            heard = Heard(one, question)
            await heard.listen(self.most)
            if heard.error is not None:
                raise RuntimeError(f"{one.name} gets no answer on a line that works: {heard.error}")

    async def run(self, questions: Sequence[str], seed: int) -> dict[str, Any]:
        """One run, as a row. `violations` in it is empty if all is right."""
        rng = random.Random(seed)
        async with self.process.client() as client:
            for question in questions:
                if question not in self.own:
                    self.own[question] = await self._own(client, question)
            kind, seconds = rng.choice(list(KINDS)), rng.uniform(*OUTAGE_SECONDS)
            most = sum(len(self.own[question]) for question in questions)
            outage = Outage(self.proxy, kind, seconds, rng.randrange(1, max(2, most)))
            outage.plan(rng)
            heard = [Heard(one, question) for one, question in zip(self.clients, questions)]
            found = []

            def came() -> None:
                outage.heard(sum(len(one.text) for one in heard))

            work = [one.listen(self.most, came) for one in heard]
            failures = await asyncio.gather(*work, return_exceptions=True)
            for one, failed in zip(heard, failures, strict=True):
                found += [f"{one.client.name}: {failed!r}"] if failed is not None else []
            await outage.end()
            states = []
            for one in heard:
                state, wrong = await self._examine(client, one)
                states.append(state)
                found += [f"{one.client.name}: {said}" for said in wrong]
        waits = [wait for one in heard if (wait := one.wait(outage.begun)) is not None]
        sources = [source for one in heard for source in one.sources]
        return {
            "seed": seed,
            "outage": outage.kind if outage.begun is not None else None,
            "seconds": round(outage.seconds, 3),
            "answers": len(heard),
            "characters": len(sources),
            "drafted": sources.count("drafted"),
            "states": states,
            "waits": [round(wait, 4) for begun, wait in waits if begun],
            "first_waits": [round(wait, 4) for begun, wait in waits if not begun],
            "violations": found,
        }

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
        own = self.own[one.question]
        if one.error is not None or not one.id:
            return "failed", [f"it did not end well: {one.error}"]
        wrong = one.misplaced()
        report: dict[str, Any] = {}
        begun = time.monotonic()
        while report.get("state") in (None, "writing", "waiting") and time.monotonic() < begun + BOUND_SECONDS:
            report = (await client.get(PATH + one.id)).json()
            await asyncio.sleep(0.05)
        sent_as = [(start, end) for start, end in report["drafted"]]
        if not one.chunks:
            one.drafted = sent_as
        elif joined(one.drafted) != sent_as:
            wrong.append(f"marked as drafted were {one.drafted}, and {sent_as} by what is told afterwards")
        text, sources = one.text, one.sources
        false = [at for at, source in enumerate(sources) if source == "verified" and text[at] != own[at : at + 1]]
        if false:
            wrong.append(f"character {false[0]} is marked as verified and is not the model's")
        if report["text"] != text:
            wrong.append(f"received {text!r}, sent {report['text']!r}")
        if report["state"] not in ("checked", "replaced") or report["checked_text"] != own:
            wrong.append(f"it ended as {report['state']}, with {report['checked_text']!r} for {own!r}")
        elif text[: report["checked"]] != own[: report["checked"]]:
            wrong.append("what is told to have held is not the model's")
        return report["state"], wrong


def joined(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The ranges, where neighbours that touch are one."""
    found: list[tuple[int, int]] = []
    for start, end in ranges:
        if found and found[-1][1] == start:
            start = found.pop()[0]
        found.append((start, end))
    return found


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """All rows together."""
    states = [state for row in rows for state in row["states"]]
    waits = {
        name: sorted(wait for row in rows if (row["outage"] in SILENT) == silent for wait in row[which])
        for name, silent, which in (
            ("wait_broken", False, "waits"),
            ("wait_silent", True, "waits"),
            ("first_wait_broken", False, "first_waits"),
            ("first_wait_silent", True, "first_waits"),
        )
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
            name: {
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
    questions: Sequence[str],
    seeds: range,
    options: argparse.Namespace,
) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """The versions of the clients; a row for each seed, and one for all of them together."""
    rows, count = [], options.clients
    async with Replicas(options.target, str(options.moa), 2) as replicas:
        await replicas.ready()
        with tempfile.TemporaryDirectory(prefix="outrider-gateway-") as name:
            folder = Path(name)
            async with (
                FaultProxy(replicas.ports) as proxy,
                GatewayProcess(folder / "home", options.moa, proxy.url) as process,
                opened(count, process, folder, options.python, options.node_modules) as used,
            ):
                clients = Clients(used, process, proxy, options.max_tokens)
                await clients.warm_up(questions[0])
                gc.freeze()  # The line runs through here: a full collection would hold it up for a third of a second.
                for run, seed in enumerate(seeds):
                    asked = [questions[(count * run + at) % len(questions)] for at in range(count)]
                    rows.append({"run": run, **await clients.run(asked, seed)})
                    print(json.dumps(rows[-1]), flush=True)
    rows.append(summary(rows))
    print(json.dumps(rows[-1]), flush=True)
    return {client.name: client.version for client in used}, rows


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command. Exit code 1 if anything was lost, doubled or falsely marked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0, help="seed of the first run; later runs count up")
    parser.add_argument("--clients", type=int, choices=range(1, len(PROGRAMS) + 1), default=len(PROGRAMS))
    parser.add_argument("--python", help="an interpreter with `openai` and `llm`, for the real clients")
    parser.add_argument("--node-modules", type=Path, help="a folder with `openai`, for the real clients")
    parser.add_argument("--prompts", type=Path, default=PROMPTS)
    parser.add_argument("--max-tokens", type=int, default=96, help="most tokens of an answer")
    parser.add_argument("--target", default=str(TARGET))
    parser.add_argument("--moa", type=Path, default=DRAFTER, metavar="DIR", help="its drafter")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args(argv)
    questions = [prompt.turns[0] for prompt in read_prompts(arguments.prompts)]
    seeds = range(arguments.seed, arguments.seed + arguments.runs)
    if (arguments.python is None) != (arguments.node_modules is None):
        parser.error("--python and --node-modules go together")
    clients, rows = asyncio.run(measure(questions, seeds, arguments))
    if arguments.json:
        told = {"machine": machine(), "clients": clients, "rows": rows}
        arguments.json.write_text(json.dumps(told, indent=1) + "\n")
    return 1 if rows[-1]["violations"] else 0


if __name__ == "__main__":
    sys.exit(main())
