"""Seconds from the verifier's sudden death to the next word of the running answer.

    python -m benchmarks.handover [--repeats 5] [--json OUT]

The bundled verifier runs on loopback as a process of its own. It is killed (SIGKILL) after three rounds of an answer.
Then it is started again, and the next answer must be verified throughout.
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
from pathlib import Path

from app.assistant import Assistant
from app.config import Settings
from app.events import Done, Drafted, Failed, ModeChanged, Stats
from app.loopback import Loopback
from app.machine import machine
from drafter.runtime import Drafter
from storage import Store

QUESTION, NEXT = "examples of curl", "how do I list hidden files?"


async def one(store: Store, drafter: Drafter, settings: Settings) -> dict[str, float | int | bool]:
    """One death and one return."""
    source = Loopback(settings.target, settings.drafter)
    row: dict[str, float | int | bool] = {}
    async with Assistant(drafter, store, source, settings) as assistant:
        killed, alone = 0.0, False
        async for event in assistant.reply(store.create_conversation("death").id, QUESTION):
            if isinstance(event, Stats) and event.rounds == 3 and not killed:
                assert source.process_id is not None
                os.kill(source.process_id, signal.SIGKILL)
                killed = time.monotonic()
            elif killed and isinstance(event, ModeChanged) and event.mode == "offline":
                alone = True
            elif alone and isinstance(event, Drafted) and "seconds" not in row:
                row["seconds"] = round(time.monotonic() - killed, 3)
            elif isinstance(event, Failed):
                raise SystemExit(event.message)
            elif isinstance(event, Done):
                row["verified"], row["drafted"] = event.provenance.count(True), event.provenance.count(False)
        while assistant.status().mode not in ("edge", "hosted"):
            await asyncio.sleep(0.05)
        async for event in assistant.reply(store.create_conversation("return").id, NEXT):
            if isinstance(event, Done):
                row["next_verified"] = all(event.provenance)
    return row


async def run(repeats: int) -> list[dict[str, float | int | bool]]:
    settings, rows = Settings(), []
    with tempfile.TemporaryDirectory() as folder:
        store = Store.open(Path(folder) / "outrider.db")
        drafter = Drafter.load(Path(settings.drafter))
        for _ in range(repeats):
            rows.append(await one(store, drafter, settings))
            print(json.dumps(rows[-1]), flush=True)
        store.close()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows = asyncio.run(run(arguments.repeats))
    print(f"median {statistics.median(row['seconds'] for row in rows):.3f} s to the next word")
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": machine(), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
