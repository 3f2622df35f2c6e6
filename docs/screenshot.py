"""Take the README's picture: the real screen, drafter and verifier, in the middle of an answer over a slow line.

    python docs/screenshot.py [OUT.svg]

A relay holds every byte back for 200 ms each way, so that drafted text is still waiting for its verdict.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
DELAY_SECONDS = 0.2
QUESTION = "examples of curl"


async def relay(port: int) -> asyncio.Server:
    """A TCP server that passes everything on to `port`, late."""

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            await asyncio.sleep(DELAY_SECONDS)
            writer.write(data)
        writer.close()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(pump(reader, upstream[1]), pump(upstream[0], writer), return_exceptions=True)

    return await asyncio.start_server(connected, "127.0.0.1", 0)


async def verifier() -> tuple[asyncio.subprocess.Process, int]:
    """The bundled verifier as a process that ends with its stdin, and its port."""
    command = [sys.executable, "-m", "app.cli", "serve", "--port", "0", "--watch-stdin"]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, cwd=ROOT)
    assert process.stdout is not None
    ready = (await process.stdout.readline()).decode()
    return process, int(ready.strip().rpartition(":")[2])


async def picture(out: Path) -> None:
    """Ask, and stop when both kinds of text are on the screen."""
    from app.config import Folders, Settings
    from app.opening import open_assistant
    from app.tui.app import OutriderApp
    from app.tui.screens.chat import ChatScreen
    from app.tui.widgets.message import Answer
    from app.tui.widgets.prompt import Prompt

    process, port = await verifier()
    server = await relay(port)
    address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    with tempfile.TemporaryDirectory() as home:
        folders = Folders.locate({"OUTRIDER_HOME": home})
        async with open_assistant(Settings(remote=address, mode="edge"), folders) as assistant:
            app = OutriderApp(assistant)
            async with app.run_test(size=(112, 32)) as pilot:
                screen = app.screen
                assert isinstance(screen, ChatScreen)
                while assistant.status().mode != "edge":
                    await pilot.pause(0.1)
                screen.query_one(Prompt).write(QUESTION)
                await pilot.press("enter")
                while not (answers := screen.query(Answer)):
                    await pilot.pause(0.02)
                reply = answers.last().turn
                while not (len(reply.reply.solid) > 250 and len(reply.reply.ghost) > 15):
                    if not reply.running:
                        raise SystemExit("the answer ended before both kinds of text were long enough for a picture")
                    await pilot.pause(0.02)
                await answers.last().flush()
                await pilot.pause()
                out.write_text(app.export_screenshot(title="outrider"))
                assistant.stop()
                while reply.running:
                    await pilot.pause(0.05)
    server.close()
    process.terminate()
    await process.wait()


if __name__ == "__main__":
    asyncio.run(picture(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs/screenshot.svg"))
