"""A server that the commands may ask."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.chat_server import ChatServer, Script
from tests.support.shells import served


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    """An OpenAI-compatible server, which the commands use."""
    server = ChatServer([Script(["It says ", "hi."])])
    with served(server) as address:
        monkeypatch.setenv("OUTRIDER_REMOTE", address)
        yield server
