"""Take the pictures of the screen's parts: the panel beside a chosen message, and search in all conversations.

    python docs/screens.py [FOLDER]

Everything on them is real: the bundled verifier answers a few questions over a line that is held back for 40 ms.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "docs"))
import screenshot  # noqa: E402

screenshot.DELAY_SECONDS = 0.02
CONVERSATIONS = (
    ("how do I unpack a tar.gz file", "and list what is in it?"),
    ("show disk usage of a folder",),
    ("find files larger than 100 MB", "delete files older than 30 days"),
    ("examples of curl", "list hidden files"),
)
WIDE = (128, 34)


async def ask(pilot: Any, screen: Any, question: str) -> None:
    """Type a question, and wait for its whole answer."""
    from app.tui.widgets.prompt import Prompt
    from app.tui.widgets.transcript import Transcript

    turns = screen.query_one(Transcript).turns
    before = len(turns)
    screen.query_one(Prompt).write(question)
    await pilot.press("enter")
    while len(turns) == before or turns[-1].running or screen.live is not None:
        await pilot.pause(0.05)


async def pictures(folder: Path) -> None:
    from app.config import Folders, Settings
    from app.opening import open_assistant
    from app.tui.app import OutriderApp
    from app.tui.screens.chat import ChatScreen
    from app.tui.widgets.conversation_list import ConversationList

    folder.mkdir(parents=True, exist_ok=True)
    process, port = await screenshot.verifier()
    server = await screenshot.relay(port)
    settings = Settings(remote=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", mode="edge")
    with tempfile.TemporaryDirectory() as home:
        async with open_assistant(settings, Folders.locate({"OUTRIDER_HOME": home})) as assistant:
            app = OutriderApp(assistant, settings)
            async with app.run_test(size=WIDE) as pilot:
                screen = app.screen
                assert isinstance(screen, ChatScreen)
                while assistant.status().mode != "edge":
                    await pilot.pause(0.1)
                for questions in CONVERSATIONS:
                    await screen.open_conversation(None)
                    for question in questions:
                        await ask(pilot, screen, question)
                await pilot.press("f3", "alt+up", "alt+up")
                await pilot.pause(0.5)
                (folder / "panel.svg").write_text(app.export_screenshot(title="outrider"))
                await pilot.press("f3", "escape", "ctrl+f")
                await pilot.pause(0.5)
                await pilot.press(*"file")
                found = screen.query_one(ConversationList)
                while "\n" not in str(found.options[0].prompt):
                    await pilot.pause(0.05)
                await pilot.pause(0.3)
                (folder / "search.svg").write_text(app.export_screenshot(title="outrider"))
    server.close()
    assert process.stdin is not None
    process.stdin.close()
    await process.wait()


if __name__ == "__main__":
    asyncio.run(pictures(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "screens"))
