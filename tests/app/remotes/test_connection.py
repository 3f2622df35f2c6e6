"""Which servers are this device itself, what a verifier has read of a conversation, and a connection that fails."""

from __future__ import annotations

import asyncio
from pathlib import Path

from app.remotes.choice import UnusableSource
from app.remotes.connection import Connection
from app.remotes.peer import VerifierSession
from app.remotes.source import AddressSource, stays_here
from drafter.runtime import Drafter
from drafter.shelf import Drafters
from remote import VerifierClient
from tests.support.patience import PATIENCE_SECONDS


async def test_only_loopback_stays_here() -> None:
    here = ("http://127.0.0.1:8000", "http://localhost:11434/v1", "http://[::1]:8080")
    near = ("https://api.example.com/v1", "http://192.168.1.2:8000")
    for address in (*here, *near, "http://localhost.example.com", "http://127.0.0.1.example.com"):
        source = AddressSource(address)
        assert stays_here(source) is (address in here)
        await source.close()
    assert stays_here(None), "nobody is asked"


def test_what_follows_a_change_is_unread() -> None:
    for tokens, unread in (([1, 2, 3, 4, 5, 6], 2), ([1, 2], 0), ([1, 9, 3, 4, 5, 6], 5)):
        session = VerifierSession()
        assert session.unread(tokens) == len(tokens)
        session.record([1, 2, 3, 4])
        assert session.unread(tokens) == unread


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
