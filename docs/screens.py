"""Take the pictures of the screen's parts: the panel beside a chosen message, and search in all conversations.

    python docs/screens.py [FOLDER]

Everything on them is real: the bundled verifier answers a few questions over a line that is held back for 40 ms,
in the mode `edge`, in which the panel has most to show.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from docs.screenshot import Relay, ask, verifier  # noqa: E402

LATE_SECONDS = 0.02
SEARCHED = "file"
CONVERSATIONS = (
    ("how do I unpack a tar.gz file", "and list what is in it?"),
    ("show disk usage of a folder",),
    ("find files larger than 100 MB", "delete files older than 30 days"),
    ("examples of curl", "list hidden files"),
)
WIDE = (128, 34)


async def pictures(folder: Path) -> None:
    from app.config import Folders, Settings
    from app.reply.bootstrap import open_assistant
    from app.tui.app import OutriderApp
    from app.tui.screens.chat.screen import ChatScreen
    from app.tui.widgets.conversation_list import ConversationList

    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as home:
        async with (
            verifier() as port,
            Relay(port, LATE_SECONDS).listening() as relay,
            open_assistant(
                settings := Settings(remote=relay.url, mode="edge"), Folders.locate({"OUTRIDER_HOME": home})
            ) as assistant,
        ):
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
                (folder / "panel.svg").write_text(app.export_screenshot(title="outrider"), encoding="utf-8")
                await pilot.press("f3", "escape", "ctrl+f")
                await pilot.pause(0.5)
                await pilot.press(*SEARCHED)
                found = screen.query_one(ConversationList)
                while "\n" not in str(found.options[0].prompt):
                    await pilot.pause(0.05)
                await pilot.pause(0.3)
                (folder / "search.svg").write_text(app.export_screenshot(title="outrider"), encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, nargs="?", metavar="FOLDER", default=ROOT / "docs" / "screens")
    out: Path = parser.parse_args().out
    asyncio.run(pictures(out))
