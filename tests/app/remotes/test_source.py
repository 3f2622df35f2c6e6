"""Which servers are this device itself, and what a verifier has read of a conversation."""

from __future__ import annotations

import pytest

from app.remotes.peer import VerifierSession
from app.remotes.source import AddressSource, stays_here


@pytest.mark.parametrize(
    ("address", "stays"),
    [
        ("http://127.0.0.1:8000", True),
        ("http://localhost:11434/v1", True),
        ("http://[::1]:8080", True),
        ("https://api.example.com/v1", False),
        ("http://192.168.1.2:8000", False),
        ("http://localhost.example.com", False),
        ("http://127.0.0.1.example.com", False),
    ],
)
async def test_only_loopback_stays_here(address: str, stays: bool) -> None:
    source = AddressSource(address)
    assert stays_here(source) is stays
    await source.close()


def test_nobody_is_asked() -> None:
    assert stays_here(None)


@pytest.mark.parametrize(
    ("tokens", "unread"),
    [
        ([1, 2, 3, 4, 5, 6], 2),
        ([1, 2], 0),
        ([1, 9, 3, 4, 5, 6], 5),
    ],
)
def test_what_follows_a_change_is_unread(tokens: list[int], unread: int) -> None:
    session = VerifierSession()
    assert session.unread(tokens) == len(tokens)
    session.record([1, 2, 3, 4])
    assert session.unread(tokens) == unread
