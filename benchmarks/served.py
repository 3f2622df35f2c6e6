"""The verifier of the network benchmark: one process that serves a target in all the ways that are compared.

    python -m benchmarks.served [--target M] [--drafter DIR] [--forward MS] [--watch-stdin]

There is one model, with the real service below two paths. `OWN` has the drafter's memory, and its own drafts in
streams, like `outrider serve`. `REFERENCE` is for the target's own answers. With `--forward`, each forward of the first
takes at least this many milliseconds, as if the target were larger: the engine's thread sleeps for the rest. Only one
client at a time is expected. Stdout carries one line, the address.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount

from benchmarks.bundled import DRAFTER, REPOSITORY, TARGET
from drafter.model import MemoryEncoder
from drafter.runtime import Drafter
from models.engines.engine import Floats, Forward
from models.engines.target import load_target
from models.engines.torch_engine import TorchEngine
from remote.verifier.drafting.own_drafter import OwnDrafter
from remote.verifier.http import create_app
from remote.verifier.serve import card
from remote.verifier.start_errors import START_ERRORS

OWN, REFERENCE = "/own", "/reference"


class NotServed(Exception):
    """The verifier did not start. The message says why."""


class Served:
    """The server's process, as an asynchronous context manager. Raises `NotServed`."""

    def __init__(self, target: str, drafter: Path, forward_ms: float) -> None:
        command = [sys.executable, "-m", "benchmarks.served", f"--target={target}", f"--drafter={drafter}"]
        command += [f"--forward={forward_ms}", "--watch-stdin"]
        self._command = command
        self._process: asyncio.subprocess.Process | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Served:
        pipe = subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(*self._command, stdin=pipe, stdout=pipe, cwd=REPOSITORY)
        assert self._process.stdout is not None
        line = (await self._process.stdout.readline()).decode()
        if (found := re.search(r":(\d+)$", line.strip())) is None:
            raise NotServed(f"the verifier ended with {await self._process.wait()}; what it said stands above")
        self.port = int(found[1])
        return self

    async def __aexit__(self, *exception: object) -> None:
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()


class PacedEngine(TorchEngine):
    """Each forward takes at least `seconds`. While it sleeps, others can use the processor."""

    seconds = 0.0

    def _run(self, requests: Sequence[Forward]) -> list[Floats]:
        due = time.monotonic() + self.seconds
        logits = super()._run(requests)
        time.sleep(max(0.0, due - time.monotonic()))
        return logits


def app(target: str, drafter: Path, forward_seconds: float) -> Starlette:
    """The services, each below its path. Raises what `START_ERRORS` names."""
    loaded = load_target(target)
    own, reference = PacedEngine(loaded.model, MemoryEncoder.load(drafter)), TorchEngine(loaded.model)
    own.seconds = forward_seconds
    drafting = OwnDrafter(Drafter.load(drafter), own)
    services = {
        OWN: create_app(own, card(loaded, own), own=drafting),
        REFERENCE: create_app(reference, card(loaded, reference)),
    }
    return Starlette(routes=[Mount(path, app=service) for path, service in services.items()])


def serve(service: Starlette) -> None:
    """Serve on a free loopback port until a signal to stop."""
    # asyncio sets TCP_NODELAY only on sockets that say they are TCP.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
        config = uvicorn.Config(service, access_log=False, log_level="warning", lifespan="off")
        uvicorn.Server(config).run(sockets=[listener])


def _end_with_stdin() -> None:
    while os.read(0, 4096):
        pass
    os._exit(0)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default=str(TARGET))
    parser.add_argument("--drafter", type=Path, default=DRAFTER, metavar="DIR")
    parser.add_argument("--forward", type=float, default=0.0, metavar="MS", help="least time of a forward")
    parser.add_argument("--watch-stdin", action="store_true", help="end when stdin does")
    arguments = parser.parse_args(argv)
    if arguments.watch_stdin:
        threading.Thread(target=_end_with_stdin, daemon=True).start()
    try:
        service = app(arguments.target, arguments.drafter, arguments.forward / 1000)
    except START_ERRORS as error:
        parser.exit(1, f"{error}\n")
    serve(service)


if __name__ == "__main__":
    main()
