"""Take the README's picture, dark and light: the real screen, drafter and verifier, in the middle of an answer.

    python docs/screenshot.py [OUT.svg]

The mode is `edge`: over this line `auto` would choose `hosted`, where hardly any text is dimmed. Some conversations are
there already, each really had. For the last answer a relay holds every byte back for 200 ms each
way, so that drafted text is still waiting for its verdict. The light one lies beside the other, as `OUT-light.svg`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
LATE_SECONDS = 0.2
EARLIER = (
    "show disk usage of a folder",
    "find files larger than 100 MB",
    "undo the last git commit",
    "which port is open",
)
FIRST = "how do I unpack photos.tar.gz"
QUESTION = "examples of git commit"
SIZE = (112, 34)
SOLID, GHOST = 60, 12
"""Least characters of each kind."""


class Relay:
    """A TCP server that passes everything on to `port`, each piece `delay` seconds late."""

    def __init__(self, port: int, delay: float = 0.0) -> None:
        self._to = port
        self.delay = delay
        self.port = 0

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Relay]:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.CancelledError):  # As the program ends; asyncio would complain of it.
            there, back = await asyncio.open_connection("127.0.0.1", self._to)
            await asyncio.gather(self._pump(reader, back), self._pump(there, writer), return_exceptions=True)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            await asyncio.sleep(self.delay)
            writer.write(data)
        writer.close()


@asynccontextmanager
async def verifier() -> AsyncIterator[int]:
    """The bundled verifier as a process of its own; yields its port."""
    command = [sys.executable, "-m", "app.cli", "serve", "--port", "0", "--watch-stdin"]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, cwd=ROOT)
    assert process.stdout is not None
    try:
        yield int((await process.stdout.readline()).decode().strip().rpartition(":")[2])
    finally:
        process.terminate()
        await process.wait()


async def ask(pilot: Any, screen: Any, question: str) -> None:
    """Type a question, and wait for its whole answer."""
    from app.tui.widgets.prompt import Prompt
    from app.tui.widgets.transcript import Transcript

    turns = screen.query_one(Transcript).turns
    before = len(turns)
    screen.query_one(Prompt).write(question)
    await pilot.press("enter")
    while len(turns) == before or turns[-1].running or screen.conversation.live is not None:
        await pilot.pause(0.05)


async def pictures(out: Path) -> None:
    """Ask, and stop when both kinds of text are on the screen."""
    from app.config import Folders, Settings
    from app.reply.bootstrap import open_assistant
    from app.tui.app import OutriderApp
    from app.tui.screens.chat.screen import ChatScreen
    from app.tui.widgets.message import AnswerView
    from app.tui.widgets.prompt import Prompt

    with tempfile.TemporaryDirectory() as home:
        folders = Folders.locate({"OUTRIDER_HOME": home})
        async with (
            verifier() as port,
            Relay(port).listening() as relay,
            open_assistant(Settings(remote=relay.url, mode="edge"), folders) as assistant,
        ):
            app = OutriderApp(assistant)
            async with app.run_test(size=SIZE) as pilot:
                screen = app.screen
                assert isinstance(screen, ChatScreen)
                while assistant.status().mode != "edge":
                    await pilot.pause(0.1)
                for question in (*EARLIER, FIRST):
                    await screen.open_conversation(None)
                    await ask(pilot, screen, question)
                relay.delay = LATE_SECONDS
                before = len(screen.query(AnswerView))
                screen.query_one(Prompt).write(QUESTION)
                await pilot.press("enter")
                while len(screen.query(AnswerView)) == before:
                    await pilot.pause(0.02)
                answer = screen.query(AnswerView).last()
                turn = answer.turn
                while not (len(turn.reply.solid) > SOLID and len(turn.reply.ghost) > GHOST):
                    if not turn.running:
                        raise SystemExit("the answer ended before both kinds of text were long enough for a picture")
                    await pilot.pause(0.02)
                relay.delay = 10.0  # It stands as it is until both pictures are taken.
                await answer.flush()
                await pilot.pause()
                out.write_text(app.export_screenshot(title="outrider"), encoding="utf-8")
                await pilot.press("f2")
                await pilot.pause()
                light = out.with_name(f"{out.stem}-light.svg")
                light.write_text(app.export_screenshot(title="outrider"), encoding="utf-8")
                relay.delay = 0.0
                assistant.stop()
                while turn.running:
                    await pilot.pause(0.05)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, nargs="?", metavar="OUT.svg", default=ROOT / "docs/screenshot.svg")
    out: Path = parser.parse_args().out
    asyncio.run(pictures(out))
