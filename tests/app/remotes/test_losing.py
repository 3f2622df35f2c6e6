"""After a line has broken, nobody looks for the server until the small model has had time for its first words."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from app.remotes.choice import UnusableSource
from app.remotes.connection import FIRST_WORDS_SECONDS, Connection
from app.remotes.source import AddressSource
from drafter.runtime import Drafter
from drafter.shelf import Drafters
from remote import Broken, LinkDown, RemoteError, Stranger, VerifierClient
from remote.clock import Clock
from tests.support.chat_server import ChatServer, Script
from tests.support.conversing import until
from tests.support.patience import PATIENCE_SECONDS
from tests.support.serving import VerifierProcess


class Noted(Clock):
    """The machine's own clock, which notes how long somebody sleeps."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await super().sleep(seconds)


@pytest.fixture
def clock() -> Noted:
    return Noted()


@pytest.fixture
async def connection(tiny_pair: Path, verifier: VerifierProcess, clock: Noted) -> AsyncIterator[Connection]:
    async with started(verifier.url, tiny_pair, clock) as one:
        yield one


@asynccontextmanager
async def started(url: str, tiny_pair: Path, clock: Clock) -> AsyncIterator[Connection]:
    drafters = Drafters(Drafter.load(tiny_pair / "drafter"))
    one = Connection(AddressSource(url), drafters=drafters, clock=clock, patience=PATIENCE_SECONDS)
    one.start()
    try:
        yield one
    finally:
        await one.close()


async def connected(connection: Connection) -> None:
    await until(lambda: connection.verifier is not None)


async def lost(connection: Connection, error: RemoteError) -> None:
    """A round fails, and the connection comes back."""
    await connected(connection)
    assert connection.verifier is not None
    connection.gained()
    connection.lost(connection.verifier, error)
    assert connection.verifier is None
    await connected(connection)


@pytest.mark.parametrize("error", [Broken("it broke"), Stranger("a login page")])
async def test_a_line_that_broke_is_not_probed_at_once(
    connection: Connection, clock: Noted, error: RemoteError
) -> None:
    await lost(connection, error)
    assert clock.slept == [FIRST_WORDS_SECONDS]


async def test_a_line_that_was_silent_may_be_back(connection: Connection, clock: Noted) -> None:
    await lost(connection, LinkDown("it said nothing for 2 s"))
    assert clock.slept == []


async def test_a_server_that_checks_nothing_is_looked_for_at_once(tiny_pair: Path, clock: Noted) -> None:
    """Nobody drafts in its place."""
    async with (
        ChatServer([Script(["tar -xf"])]).listening() as port,
        started(f"http://127.0.0.1:{port}", tiny_pair, clock) as one,
    ):
        await lost(one, Broken("it broke"))
    assert clock.slept == []


async def test_a_fault_of_ours_is_told_to_whoever_waits(tiny_pair: Path) -> None:
    """The task that connects would end with it, and answers would wait for ever."""

    class Faulty(UnusableSource):
        async def client(self) -> VerifierClient:
            raise AttributeError("no such thing")

    connection = Connection(Faulty(""), drafters=Drafters(Drafter.load(tiny_pair / "drafter")))
    connection.start()
    async with asyncio.timeout(PATIENCE_SECONDS):
        while connection.warming:
            await connection.changed()
    assert connection.verifier is None and connection.why == "connecting failed (AttributeError: no such thing)"
    await connection.close()
