"""Seconds from a sudden loss of the line to the next word of the running answer.

    python -m benchmarks.handover [--fault kill|silence] [--profile NAME] [--repeats 5] [--json OUT]

`kill`: the verifier on loopback is killed (SIGKILL) after three rounds of an answer, so its connection ends visibly.
`silence`: from then on every connection swallows everything, like a dead radio link, and only a deadline can detect it.
`--profile` puts an emulated line of tests/support/profiles.json in between; without it, that line is loopback too.
After the answer the line heals, and the next answer must be verified throughout.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from app.config import Settings
from app.events import Done, Drafted, Failed, ModeChanged, RoundEnded
from app.remotes.loopback import Loopback
from app.remotes.source import AddressSource
from app.reply.assistant import Assistant
from app.reply.routing import Options
from benchmarks.bundled import write
from benchmarks.replicas import Replica
from drafter.runtime import Drafter
from drafter.shelf import Drafters
from storage import Store
from tests.support.emulator import PROFILES, Emulator, read_profiles
from tests.support.fault_proxy import FaultProxy
from tests.support.faults import silence

QUESTION, NEXT = "examples of curl", "how do I list hidden files?"
LOOPBACK = "loopback"
ROUNDS = 3
"""Rounds of the answer before the line is lost."""


class Killed:
    """The app's own verifier on this device, which is killed and restarted by the app."""

    def __init__(self, source: Loopback) -> None:
        self.source = source

    def end(self) -> None:
        assert self.source.process_id is not None
        os.kill(self.source.process_id, signal.SIGKILL)

    async def heal(self) -> None:
        """Nothing to do: the app heals it."""


class Silenced:
    """A verifier behind a line that swallows everything until it is restored."""

    def __init__(self, url: str, proxy: FaultProxy) -> None:
        self.source, self._proxy = AddressSource(url), proxy

    def end(self) -> None:
        self._proxy.line = silence
        self._proxy.hush()

    async def heal(self) -> None:
        await self._proxy.heal()


@asynccontextmanager
async def opened(settings: Settings, fault: str, profile: str | None) -> AsyncIterator[Killed | Silenced]:
    """The verifier, with the way in which its line is lost."""
    if fault == "kill":
        yield Killed(Loopback(settings.target, settings.drafter))
        return
    async with AsyncExitStack() as stack:
        replica = Replica(settings.target, settings.drafter)
        stack.push_async_callback(replica.end)
        await replica.start()
        proxy = await stack.enter_async_context(FaultProxy([replica.port]))
        url = proxy.url
        if profile is not None:
            emulator = Emulator(read_profiles(PROFILES)[profile], "127.0.0.1", proxy.port)
            url = (await stack.enter_async_context(emulator)).url
        yield Silenced(url, proxy)


async def one(store: Store, drafter: Drafter, settings: Settings, fault: str, profile: str | None) -> dict[str, Any]:
    """Measure one loss of the line and one return."""
    row: dict[str, Any] = {"fault": fault, "line": profile or LOOPBACK}
    async with (
        opened(settings, fault, profile) as line,
        Assistant(store, Options(Drafters(drafter), line.source, settings)) as assistant,
    ):
        ended, alone = 0.0, False
        async for event in assistant.reply(store.conversations.create("end").id, QUESTION):
            if isinstance(event, RoundEnded) and event.stats.rounds == ROUNDS and not ended:
                line.end()
                ended = time.monotonic()
            elif ended and isinstance(event, ModeChanged) and event.mode == "offline":
                alone = True
            elif alone and isinstance(event, Drafted) and "seconds" not in row:
                row["seconds"] = round(time.monotonic() - ended, 3)
            elif isinstance(event, Failed):
                raise SystemExit(event.message)
            elif isinstance(event, Done):
                row["verified"], row["drafted"] = event.provenance.count(True), event.provenance.count(False)
        await line.heal()
        while assistant.status().mode not in ("edge", "hosted"):
            await asyncio.sleep(0.05)
        async for event in assistant.reply(store.conversations.create("return").id, NEXT):
            if isinstance(event, Done):
                row["next_verified"] = all(event.provenance)
    return row


async def run(settings: Settings, fault: str, profile: str | None, repeats: int) -> list[dict[str, Any]]:
    rows = []
    with tempfile.TemporaryDirectory() as folder, Store.open(Path(folder) / "outrider.db") as store:
        drafter = Drafter.load(Path(settings.drafter))
        for _ in range(repeats):
            rows.append(await one(store, drafter, settings, fault, profile))
            print(json.dumps(rows[-1]), flush=True)
    return rows


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fault", choices=("kill", "silence"), default="kill")
    parser.add_argument("--profile", choices=read_profiles(PROFILES), metavar="NAME")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args(argv)
    if arguments.fault == "kill" and arguments.profile:
        parser.error("--profile: the verifier that is killed is on loopback")
    rows = asyncio.run(run(Settings(), arguments.fault, arguments.profile, arguments.repeats))
    print(f"median {statistics.median(row['seconds'] for row in rows):.3f} s to the next word")
    write(arguments.json, rows)


if __name__ == "__main__":
    main()
