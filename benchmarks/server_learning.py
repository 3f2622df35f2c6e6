"""What a server that learns costs those who ask meanwhile, and what it gains.

    python -m benchmarks.server_learning [--requests 96] [--held-out 16] [--drafter DIR] [--json OUT]

The drafter is born of the bundled target, as in `benchmarks.learning`, or was born before (`--drafter`). A real server
learns from streams over loopback; requests are tasks of pages that neither model has met.

- `rounds`: milliseconds from sending a round to its verdict, of a client that asks all the time: while nobody learns,
  while the process that learns stands back for each round, as it does, and while it does not
- `change`: the slowest round in the second before and after the new drafter came into use, with a client that asks once
  a second, where the process that learns does not stand back
- `tau`: tokens a round of the server's own drafts on requests that nobody learnt from, before and after. It drafts in
  each round here, also where that does not pay
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from app.config import BUNDLED_TARGET
from benchmarks.pair import machine_and_pair
from benchmarks.requests import born, requests
from drafter.runtime import Drafter
from models.tree import DraftTree
from remote import VerifierClient
from remote.protocol import Progress, Sampling, unpack_tokens
from remote.verifier.learning.artefacts import ABOUT

ROOT = Path(__file__).parents[1]
WAYS = {"nobody learns": None, "learning stands back": True, "learning does not stand back": False}
"""Whether a process learns, and stands back."""
MOST_TOKENS = 32
ROUNDS = 16
"""Rounds of each conversation whose time is taken."""
PATIENCE = 3600.0
"""Seconds."""


@dataclass
class Client:
    """Somebody who asks a server."""

    url: str
    drafter: Drafter
    made: Path
    """Folder of what the server has learnt."""
    seconds: list[tuple[float, float]] = field(default_factory=list)
    """When each round was sent, and how long it took."""

    async def stream(self, questions: Sequence[str]) -> float:
        """Have the server draft and answer. Returns the tokens a round."""
        rounds = gained = 0
        async with VerifierClient(self.url) as client:
            for question in questions:
                prompt = self.drafter.asked_as(question)
                stream = await client.session().stream(
                    prompt, Sampling(), most=MOST_TOKENS, memory_from=0, deadline=PATIENCE, silence=PATIENCE
                )
                async for frame in stream:
                    if isinstance(frame, Progress):
                        rounds, gained = rounds + 1, gained + len(unpack_tokens(frame.tokens))
        return gained / rounds

    async def rounds(self, questions: Sequence[str]) -> None:
        """Ask round by round, one after the other without a pause, with the memory of each."""
        async with VerifierClient(self.url) as client:
            for question in questions:
                session, tokens = client.session(), self.drafter.asked_as(question)
                for _ in range(ROUNDS):
                    begun = time.perf_counter()
                    reply = await session.round(
                        tokens, DraftTree.empty(), Sampling(), memory_from=len(tokens) - 1, deadline=PATIENCE
                    )
                    self.seconds.append((begun, time.perf_counter() - begun))
                    async for _frame in reply.memory:
                        pass
                    tokens = [*tokens, *([] if reply.verdict.bonus is None else [reply.verdict.bonus])]
                    if reply.verdict.finished:
                        break

    def published(self) -> bool:
        """Whether the server has learnt something that is better."""
        return any(self.made.rglob(ABOUT))

    async def until_published(self, questions: Sequence[str]) -> float:
        """Wait for that, asking once a second. Returns when it was."""
        begun, at = time.perf_counter(), 0
        while not self.published():
            if time.perf_counter() - begun > PATIENCE:
                raise SystemExit("nothing better was learnt")
            await self.rounds([questions[at % len(questions)]])
            at += 1
            await asyncio.sleep(0.5)
        return time.perf_counter()


@asynccontextmanager
async def served(drafter: Path, stands_back: bool | None) -> AsyncIterator[Client]:
    """A client of a server in a process of its own. `stands_back` None: it does not learn."""
    with tempfile.TemporaryDirectory() as scratch:
        way = {None: "none", True: "back", False: "beside"}[stands_back]
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.server_learning", "--serve", str(drafter), scratch, way],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        try:
            assert process.stdout is not None
            url = process.stdout.readline().rpartition(" ")[2].strip()
            yield Client(url, Drafter.load(drafter), Path(scratch))
        finally:
            process.kill()
            process.wait()


def serve(drafter: Path, scratch: Path, way: str) -> None:
    """Serve the bundled target with this drafter until stdin ends."""
    from remote.verifier.drafting.stream_payoff import StreamPayoff
    from remote.verifier.options import ServeOptions
    from remote.verifier.serve import serve as listen

    # Its drafter drafts in each round, also where that would not pay: its drafts are what is judged.
    StreamPayoff.pays, StreamPayoff.gain = True, math.inf  # type: ignore[assignment, method-assign]
    learn = None if way == "none" else "own"
    options = ServeOptions(str(BUNDLED_TARGET), drafter, port=0, log_format="off", watch_stdin=True)
    listen(replace(options, made=scratch, learn=learn, pausing=way == "back"))


async def measured(drafter: Path, learnt: Sequence[str], held_out: Sequence[str]) -> dict[str, Any]:
    """All figures."""
    rows, found = [], {}
    for name, stands_back in WAYS.items():
        async with served(drafter, stands_back) as client:
            await client.rounds(held_out[:2])  # Warm up.
            if stands_back is None:
                found["tau"] = {"before": await client.stream(held_out)}
            else:
                await client.stream(learnt)
                await asyncio.sleep(8.0)  # It begins when it has been quiet, and takes some seconds to start.
            client.seconds.clear()
            await client.rounds(held_out)
            busy = stands_back is not None and not client.published()
            rows.append({"way": name, "learnt_all_the_time": busy, **spread([took for _, took in client.seconds])})
            if stands_back is False:
                begun = time.perf_counter()
                at = await client.until_published(held_out)
                await client.rounds(held_out[:4])
                near = [took for begun, took in client.seconds if abs(begun + took - at) < 1.0]
                found["change"] = {"most_ms": 1e3 * max(near), "rounds": len(near), "after_seconds": at - begun}
                found["tau"]["after"] = await client.stream(held_out)
                (about,) = client.made.rglob(ABOUT)
                found["published"] = json.loads(about.read_text())
    return {"rounds": rows, **found}


def spread(seconds: Sequence[float]) -> dict[str, float]:
    """Milliseconds."""
    ordered = sorted(1e3 * one for one in seconds)
    return {
        "count": len(ordered),
        "p50_ms": statistics.median(ordered),
        "p95_ms": ordered[int(0.95 * (len(ordered) - 1))],
        "most_ms": ordered[-1],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=96)
    parser.add_argument("--held-out", type=int, default=16)
    parser.add_argument("--drafter", type=Path, metavar="DIR")
    parser.add_argument("--json", type=Path, metavar="OUT")
    parser.add_argument("--serve", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(Path(arguments.serve[0]), Path(arguments.serve[1]), arguments.serve[2])
        return
    with tempfile.TemporaryDirectory() as scratch:
        drafter = arguments.drafter or Path(scratch) / "drafter"
        if not drafter.is_dir():
            born(str(BUNDLED_TARGET), drafter)
        asked = requests("windows", arguments.requests + arguments.held_out, 0)
        learnt, held_out = asked[: arguments.requests], asked[arguments.requests :]
        document = {
            "machine": machine_and_pair(),
            "requests": len(learnt),
            "held_out": len(held_out),
            **asyncio.run(measured(drafter, learnt, held_out)),
        }
    print(json.dumps(document, indent=1))
    if arguments.json:
        arguments.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
