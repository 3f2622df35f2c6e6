"""`outrider gateway`: bind, load the drafter, and answer other programs until a signal stops it.

Stdout carries one line, `outrider gateway ready at URL`, once requests are answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import socket
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from app.config import Folders, Settings
from app.exits import complain
from app.gateway.answers import Answers
from app.gateway.checks import Checks
from app.gateway.http import create_app
from app.gateway.seats import Seats
from app.remotes.choice import UnusableSource, source_of
from app.remotes.last_seen import LastSeen
from app.remotes.source import RemoteSource, Source
from app.reply.bootstrap import drafters_of, local_model, with_stand_in
from app.reply.routing import Options
from drafter.runtime import Drafter
from remote.verifier.connections import Loop, Server, bind, config
from remote.verifier.holders import Tokens

HOST = "127.0.0.1"
PORT = 8788
DRAIN_SECONDS = 30
"""Time for the answers in progress after SIGTERM; then they are stopped."""
KEEP_ALIVE_SECONDS = 90
MOST_CONNECTIONS = 256


@dataclass(frozen=True)
class GatewayOptions:
    """The command line's options for a gateway."""

    model: str | None = None
    port: int = PORT
    """0 means any free port."""
    tokens: Tokens | None = None
    """The tokens that clients may send, or None if they need none."""
    origins: Collection[str] = ()
    """Origins of web pages that may ask."""
    most: int = 4
    """Answers that are written at the same time, if the server's `parallel` is not lower."""
    waiting: int = 32
    """Requests that wait for one of them to end."""


def serve(settings: Settings, folders: Folders, options: GatewayOptions) -> None:
    """Answer on this device's loopback until SIGINT or SIGTERM.

    Raises `CannotBind`, `ConfigError`, `DrafterError`, `Misconfigured`, `StorageError`.
    """
    listener = bind(HOST, options.port, MOST_CONNECTIONS)
    with contextlib.closing(listener), asyncio.Runner(loop_factory=Loop) as runner:
        runner.run(_serve(listener, settings, folders, options))


async def _serve(listener: socket.socket, settings: Settings, folders: Folders, options: GatewayOptions) -> None:
    settings = with_stand_in(settings, folders, complain)
    drafter = await asyncio.to_thread(Drafter.load, Path(settings.drafter), settings.drafter_runtime)
    seen = await asyncio.to_thread(LastSeen, folders.servers)
    drafters, source = drafters_of(drafter, settings, folders), source_of(settings, folders, options.model)
    checks = Checks()
    asked = Options(drafters, source, settings, seen=seen, stand_in=_shared(folders), texts=folders.texts)
    async with Seats(asked, most=_at_once(source, options.most), waiting=options.waiting) as seats:
        try:
            app = create_app(seats, Answers(), checks, options.tokens, origins=options.origins)
            running = config(
                app,
                MOST_CONNECTIONS,
                timeout_graceful_shutdown=DRAIN_SECONDS,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
            )
            running.load()
            url = f"http://{HOST}:{listener.getsockname()[1]}"
            server = Server(running, lambda: print(f"outrider gateway ready at {url}", flush=True))
            gc.freeze()  # A full collection would walk through all modules and delay every answer by 35 ms.
            with _signals_end_quietly():
                await server.serve(sockets=[listener])
        finally:
            await checks.close()


def _at_once(source: Source | None, most: int) -> int:
    """Answers at once: at most `most`, and no more than the person lets this server write (`parallel`)."""
    own = source.remote.parallel if isinstance(source, RemoteSource) else None
    return min(most, own or most)


def _shared(folders: Folders) -> Callable[[str | None], Source]:
    """The models on this device by their names, each in one process for all seats."""
    made: dict[str | None, Source] = {}

    def model(name: str | None) -> Source:
        if isinstance(made.get(name, UnusableSource("")), UnusableSource):
            made[name] = local_model(folders, name)
        return made[name]

    return model


@contextlib.contextmanager
def _signals_end_quietly() -> Iterator[None]:
    """Let uvicorn re-raise a signal after draining without ending this process at once, so that the rest is closed."""
    before = {one: signal.signal(one, lambda *_: None) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
