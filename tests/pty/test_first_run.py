"""The first start at a real terminal: from nothing to an answer of a server that runs on this device."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path

from app.config import Folders
from app.remotes.registry import Remotes
from tests.pty.tmux import Tmux
from tests.support.chat_server import ChatServer, Script
from tests.support.patience import PATIENCE_SECONDS
from tests.support.serving import REPOSITORY

PROGRAM = """
import sys
from app.remotes import nearby
nearby.PORTS = ({port},)
nearby.look.__defaults__ = (nearby.PORTS, {seconds})
sys.argv = ["outrider"]
from app.start import main
main()
"""
"""The application, which looks at the port of the test."""


@dataclass
class CountedServer(ChatServer):
    """Counts all connections, with or without a question."""

    connections: int = 0

    async def _serve(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        await super()._serve(number, reader, writer)


async def test_from_nothing_to_an_answer(tiny_pair: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    given = {
        "OUTRIDER_HOME": str(home),
        "OUTRIDER_TARGET": str(tiny_pair / "target"),
        "OUTRIDER_DRAFTER": str(tiny_pair / "drafter"),
        "PYTHONPATH": str(REPOSITORY),
    }
    server = CountedServer([Script(["Unpack it ", "with tar."])])
    async with server.listening() as port:
        program = PROGRAM.format(port=port, seconds=PATIENCE_SECONDS)
        with Tmux(tmp_path / "tmux", [sys.executable, "-c", program], given, REPOSITORY, (24, 80)) as tmux:
            await tmux.until("f12 look for them   esc not now")
            assert server.connections == 0
            tmux.press("F12")
            await tmux.until(f"127.0.0.1:{port}")
            tmux.press("Enter")
            await tmux.until("Which model")
            tmux.press("Down", "Enter")
            await tmux.until("other at OpenAI-compatible server")
            tmux.type("how do I unpack it")
            await tmux.until("how do I unpack it")
            tmux.press("Enter")
            await tmux.until("Unpack it with tar.")
            tmux.press("C-q")
            assert await tmux.ended() == 0, tmux.screen
    assert server.asked[0]["model"] == "other"
    assert Remotes(Folders.locate({"OUTRIDER_HOME": str(home)})).used == "local"
