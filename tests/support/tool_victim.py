"""A program that dies in a tool call: `python -m tests.support.tool_victim DRAFTER DATABASE URL FILE POINT`.

POINT: `asked` (the call is a row, and nobody has said yes), `ran` (the tool has done its work, and its result is not
here yet) or `done` (the result is stored, and the model does not have it).
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from app.config import Settings
from app.events import ToolCalled
from drafter.runtime import Drafter
from storage import Choices
from tests.support.conversing import Heard, ask, assistant
from tests.support.file_tool import FileTools


async def main(drafter: str, database: str, url: str, file: str, point: str) -> None:
    tools = FileTools(Path(file), killed=point == "ran")
    options = {"settings": Settings(temperature=0.0), "tools": lambda: tools}
    async with assistant(Drafter.load(Path(drafter)), Path(database), url, **options) as opened:
        conversation = opened.store.conversations.create("tools", Choices(tools=("files",))).id

        def strike(heard: Heard) -> None:
            event = heard.last
            if isinstance(event, ToolCalled) and event.asks:
                if point == "asked":
                    os.kill(os.getpid(), signal.SIGKILL)
                opened.decide(conversation, event.call.place, "always")
            elif isinstance(event, ToolCalled) and event.call.state == "done" and point == "done":
                os.kill(os.getpid(), signal.SIGKILL)

        await ask(opened, "append", conversation, strike)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
