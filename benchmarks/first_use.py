"""From `outrider serve --model` on one machine to the first drafted and checked tokens on another, both fresh.

    python -m benchmarks.first_use [--model DIR] [--line 4g] [--repeats 3] [--json OUT]

Each repeat has two empty homes. On the first one, `outrider serve --model` makes a drafter and serves; it is started a
second time too, when the drafter is kept. On the second one, the commands that a person types run one after another,
over an emulated line. Bytes are those that the line carried; seconds are those of each command, its start included.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from app.config import BUNDLED_TARGET
from benchmarks.pair import machine_and_pair
from tests.support.emulator import Emulator, read_profiles

ROOT = Path(__file__).parents[1]
QUESTION = "How do I list the files in a folder, the newest first?"
START_SECONDS = 600.0


def environment(home: Path) -> dict[str, str]:
    """That of a person who has just installed Outrider."""
    kept = {name: os.environ[name] for name in ("PATH", "OMP_NUM_THREADS") if name in os.environ}
    return {**kept, "LANG": "C.UTF-8", "HOME": str(home), "OUTRIDER_HOME": str(home / "own"), "PYTHONPATH": str(ROOT)}


@asynccontextmanager
async def serving(model: str, home: Path) -> AsyncIterator[tuple[int, float]]:
    """A running `outrider serve --model`: its port, and the seconds until it was ready."""
    begun, pipe = time.perf_counter(), asyncio.subprocess.PIPE
    command = (sys.executable, "-m", "app.cli", "serve", "--model", model, "--port", "0", "--watch-stdin")
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, cwd=home, env=environment(home))
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        async with asyncio.timeout(START_SECONDS):
            said = ""
            while (found := re.search(r"http://[^:\s]+:(\d+)", said)) is None:
                if not (line := await process.stdout.readline()):
                    raise SystemExit(f"outrider serve ended and said: {said}")
                said += line.decode()
        yield int(found[1]), time.perf_counter() - begun
    finally:
        process.stdin.close()
        await process.wait()


async def typed(home: Path, *arguments: str) -> tuple[str, float]:
    """What a command prints, and its seconds."""
    begun, pipe = time.perf_counter(), asyncio.subprocess.PIPE
    command = (sys.executable, "-m", "app.cli", *arguments)
    process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe, cwd=home, env=environment(home))
    out, err = await process.communicate()
    if process.returncode:
        raise SystemExit(f"outrider {' '.join(arguments)} ended with {process.returncode}: {err.decode()}")
    return out.decode(), time.perf_counter() - begun


async def once(model: str, line: str) -> dict[str, Any]:
    """One pair of fresh homes."""
    with tempfile.TemporaryDirectory() as scratch:
        server, device = Path(scratch) / "server", Path(scratch) / "device"
        server.mkdir()
        device.mkdir()
        async with serving(model, server) as (_, made):
            pass
        steps: list[dict[str, Any]] = [{"command": "outrider serve --model MODEL", "seconds": made, "bytes": 0}]
        async with serving(model, server) as (port, kept):
            steps.append({"command": "the same again", "seconds": kept, "bytes": 0})
            async with Emulator(read_profiles()[line], "127.0.0.1", port) as emulator:
                for arguments in (
                    ("remote", "add", "mine", emulator.url),
                    ("drafter", "fetch", "mine"),
                    ("ask", QUESTION, "--remote", "mine", "--json"),
                ):
                    before = emulator.bytes_up + emulator.bytes_down
                    out, seconds = await typed(device, *arguments)
                    carried = emulator.bytes_up + emulator.bytes_down - before
                    shown = " ".join(("outrider", *("QUESTION" if one == QUESTION else one for one in arguments)))
                    shown = shown.replace(emulator.url, "ADDRESS").removesuffix(" --json")
                    steps.append({"command": shown, "seconds": seconds, "bytes": carried})
    answer = json.loads(out)
    return {"steps": steps, "tau": answer["tau"], "provenance": answer["provenance"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=str(BUNDLED_TARGET))
    parser.add_argument("--line", default="4g", help="a profile of tests/support/profiles.json")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, metavar="OUT")
    arguments = parser.parse_args()
    model = str(Path(arguments.model).resolve())
    runs = [asyncio.run(once(model, arguments.line)) for _ in range(arguments.repeats)]
    steps = [
        {
            "command": each[0]["command"],
            "seconds": statistics.median(one["seconds"] for one in each),
            "bytes": int(statistics.median(one["bytes"] for one in each)),
        }
        for each in zip(*(run["steps"] for run in runs), strict=True)
    ]
    document = {"machine": machine_and_pair(), "line": arguments.line, "repeats": arguments.repeats, "steps": steps,
                "tau": [run["tau"] for run in runs], "provenance": runs[0]["provenance"]}  # fmt: skip
    print(json.dumps(document, indent=1))
    if arguments.json:
        arguments.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
