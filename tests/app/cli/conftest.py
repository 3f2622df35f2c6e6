"""The program that most tests of the command line run, and a server that it may ask."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.chat_server import ChatServer, Script
from tests.support.commands import Outrider, runner
from tests.support.shells import served


@pytest.fixture
def outrider(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], home: Path, tiny_pair: Path
) -> Outrider:
    """Runs commands in `home` with the drafter of the tiny pair, and through no proxy."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    return runner(monkeypatch, capsys, home, tiny_pair / "drafter")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    """An OpenAI-compatible server, which the commands use."""
    server = ChatServer([Script(["It says ", "hi."])])
    with served(server) as address:
        monkeypatch.setenv("OUTRIDER_REMOTE", address)
        yield server
